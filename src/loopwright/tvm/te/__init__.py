"""Schedules of tensor expressions, scans, hybrid script, derivatives: the parts of TVM's `te` beyond `compute`."""
