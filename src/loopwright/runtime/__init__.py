"""The runtime: tensors, devices, modules, threads. Runs compiled artefacts without the compiler."""
