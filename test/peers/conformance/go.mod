module gpuslice.test/peers/conformance

go 1.23

require github.com/NVIDIA/go-nvml v0.13.3-0
