"""What exists only because TVM has it: Relay, topi, te's schedules, TVM's own passes and helpers.

Users reach it under the names they know (`loopwright.relay`, `te.create_schedule`,
`relax.transform.ToMixedPrecision`); `base.doors` leads there. Nothing but the composition root and
the command line imports it, so a compile does not load it.

- compat: TVM's paths and names, and the parts of its Python surface outside of the compiler
- relay, topi, te: Relay and its operators; topi; schedules of tensor expressions, scans, hybrid script
- relax_transform, tir_transform: passes that our pipelines do not run
- cuda, tensorrt: code generators for machines that are not here
- graph_executor, rpc: TVM's ways to run a model
- testing: TVM's helpers for tests
"""
