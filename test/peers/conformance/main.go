// SPDX-License-Identifier: Apache-2.0

// Conformance asks the NVML library that it finds (LD_LIBRARY_PATH) through NVIDIA's own Go
// binding: all symbols of its header, every GPU, and the two-call patterns that Go programs rely
// on. It prints what it sees, and exits 1 if anything is not as on a real machine.
//
// Usage: conformance GPUS NAME [mig], with dashes for the blanks in the name; mig: cuts the first GPU as
// well, to each of its profiles
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

var failures int

func check(ok bool, format string, args ...any) {
	if !ok {
		failures++
		fmt.Printf("FAIL "+format+"\n", args...)
	}
}

func is(ret, want nvml.Return, what string) bool {
	check(ret == want, "%s: %v, expected %v", what, ret, want)
	return ret == want
}

// Every function that the library says it has must be called without the process dying: Go resolves
// it at the first call, and a missing symbol is fatal.
func checkSymbols() {
	data, err := os.ReadFile(os.Getenv("NVML_NAMES"))
	if err != nil {
		fmt.Println("symbols: not checked:", err)
		return
	}
	n := 0
	for _, line := range strings.Split(string(data), "\n") {
		name, _, _ := strings.Cut(line, " ")
		if !strings.HasPrefix(name, "nvml") {
			continue
		}
		n++
		check(nvml.Extensions().LookupSymbol(name) == nil, "symbol %s is missing", name)
	}
	check(n >= 413, "only %d names in the list", n)
	fmt.Println("symbols:", n)
}

func checkDevice(i int, name string) {
	d, ret := nvml.DeviceGetHandleByIndex(i)
	if !is(ret, nvml.SUCCESS, "handle") {
		return
	}
	got, ret := d.GetName()
	is(ret, nvml.SUCCESS, "name")
	check(strings.ReplaceAll(got, " ", "-") == name, "name %q, expected %q", got, name)
	uuid, ret := d.GetUUID()
	is(ret, nvml.SUCCESS, "uuid")
	again, ret := nvml.DeviceGetHandleByUUID(uuid)
	is(ret, nvml.SUCCESS, "handle by uuid")
	index, ret := again.GetIndex()
	is(ret, nvml.SUCCESS, "index")
	check(index == i, "index %d, expected %d", index, i)
	pci, ret := d.GetPciInfo()
	is(ret, nvml.SUCCESS, "pci")
	check(pci.PciDeviceId&0xffff == 0x10de, "pci vendor %x", pci.PciDeviceId)
	minor, ret := d.GetMinorNumber()
	is(ret, nvml.SUCCESS, "minor")
	major, ccMinor, ret := d.GetCudaComputeCapability()
	is(ret, nvml.SUCCESS, "compute capability")
	memory, ret := d.GetMemoryInfo()
	is(ret, nvml.SUCCESS, "memory")
	v2, ret := d.GetMemoryInfo_v2()
	is(ret, nvml.SUCCESS, "memory v2")
	check(memory.Used == v2.Used+v2.Reserved, "v1 used %d, v2 %d + %d", memory.Used, v2.Used, v2.Reserved)
	check(memory.Total == memory.Used+memory.Free, "memory does not add up")
	checkLists(d)
	checkMig(d, major)
	checkEvents(d)
	checkLinks(d)
	checkGpm(d, major)
	fmt.Printf("gpu %d: %s %s minor %d cc %d.%d %d MiB\n", i, got, uuid, minor, major, ccMinor, memory.Total>>20)
}

// go-nvml starts with one entry and doubles on INSUFFICIENT_SIZE.
func checkLists(d nvml.Device) {
	_, ret := d.GetComputeRunningProcesses()
	is(ret, nvml.SUCCESS, "compute processes")
	_, ret = d.GetGraphicsRunningProcesses()
	is(ret, nvml.SUCCESS, "graphics processes")
	_, ret = d.GetMPSComputeRunningProcesses()
	is(ret, nvml.SUCCESS, "mps processes")
	samples, ret := d.GetProcessUtilization(0)
	check(ret == nvml.ERROR_NOT_FOUND || (ret == nvml.SUCCESS && len(samples) > 0), "process utilization: %v", ret)
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION}, {FieldId: 9999}}
	is(d.GetFieldValues(values), nvml.SUCCESS, "field values")
	check(nvml.Return(values[0].NvmlReturn) == nvml.SUCCESS, "energy field: %d", values[0].NvmlReturn)
	check(nvml.Return(values[1].NvmlReturn) == nvml.ERROR_INVALID_ARGUMENT, "unknown field: %d", values[1].NvmlReturn)
}

func checkMig(d nvml.Device, major int) {
	current, pending, ret := d.GetMigMode()
	if ret == nvml.SUCCESS {
		check(current == 0 && pending == 0, "MIG mode %d %d", current, pending)
	} else {
		is(ret, nvml.ERROR_NOT_SUPPORTED, "MIG mode")
		check(major != 9 && major != 10, "no MIG on compute capability %d", major)
	}
	n, ret := d.GetMaxMigDeviceCount()
	is(ret, nvml.SUCCESS, "MIG device count")
	check(n == 0, "%d MIG devices", n)
	_, ret = d.GetMigDeviceHandleByIndex(0)
	is(ret, nvml.ERROR_NOT_FOUND, "MIG device 0")
	isMig, ret := d.IsMigDeviceHandle()
	is(ret, nvml.SUCCESS, "is MIG")
	check(!isMig, "a whole GPU says it is a MIG device")
}

func checkEvents(d nvml.Device) {
	types, ret := d.GetSupportedEventTypes()
	is(ret, nvml.SUCCESS, "event types")
	check(types&nvml.EventTypeXidCriticalError != 0, "no XID events in %x", types)
	set, ret := nvml.EventSetCreate()
	is(ret, nvml.SUCCESS, "event set")
	is(d.RegisterEvents(types&(nvml.EventTypeXidCriticalError|nvml.EventTypeDoubleBitEccError), set), nvml.SUCCESS, "register")
	_, ret = set.Wait(0)
	is(ret, nvml.ERROR_TIMEOUT, "wait")
	is(set.Free(), nvml.SUCCESS, "free")
}

func checkLinks(d nvml.Device) {
	for link := 0; link < nvml.NVLINK_MAX_LINKS; link++ {
		state, ret := d.GetNvLinkState(link)
		if ret != nvml.SUCCESS {
			check(ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT, "link %d: %v", link, ret)
			return
		}
		if state == nvml.FEATURE_ENABLED {
			_, ret = d.GetNvLinkRemotePciInfo(link)
			is(ret, nvml.SUCCESS, "link's remote address")
		}
	}
}

func checkGpm(d nvml.Device, major int) {
	support, ret := d.GpmQueryDeviceSupport()
	is(ret, nvml.SUCCESS, "gpm support")
	check((support.IsSupportedDevice == 1) == (major == 9 || major == 10), "gpm %d on compute capability %d", support.IsSupportedDevice, major)
	if support.IsSupportedDevice == 0 {
		return
	}
	a, ret := nvml.GpmSampleAlloc()
	is(ret, nvml.SUCCESS, "gpm sample")
	b, _ := nvml.GpmSampleAlloc()
	is(a.Get(d), nvml.SUCCESS, "gpm get")
	is(b.Get(d), nvml.SUCCESS, "gpm get")
	get := nvml.GpmMetricsGetType{NumMetrics: 1, Sample1: a, Sample2: b}
	get.Metrics[0].MetricId = uint32(nvml.GPM_METRIC_GRAPHICS_UTIL)
	is(nvml.GpmMetricsGet(&get), nvml.SUCCESS, "gpm metrics")
	is(a.Free(), nvml.SUCCESS, "gpm free")
	is(b.Free(), nvml.SUCCESS, "gpm free")
}

func main() {
	if len(os.Args) != 3 && (len(os.Args) != 4 || os.Args[3] != "mig") {
		fmt.Fprintln(os.Stderr, "usage: conformance GPUS NAME [mig]")
		os.Exit(2)
	}
	want, err := strconv.Atoi(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if ret := nvml.Init(); ret != nvml.SUCCESS {
		fmt.Println("init:", ret)
		os.Exit(1)
	}
	checkSymbols()
	driver, ret := nvml.SystemGetDriverVersion()
	is(ret, nvml.SUCCESS, "driver version")
	cuda, ret := nvml.SystemGetCudaDriverVersion()
	is(ret, nvml.SUCCESS, "CUDA version")
	count, ret := nvml.DeviceGetCount()
	is(ret, nvml.SUCCESS, "count")
	check(count == want, "%d GPUs, expected %d", count, want)
	fmt.Printf("driver %s, CUDA %d, %d GPUs\n", driver, cuda, count)
	for i := 0; i < count; i++ {
		checkDevice(i, os.Args[2])
	}
	if len(os.Args) == 4 {
		checkCuts()
	}
	_, ret = nvml.DeviceGetHandleByIndex(count)
	is(ret, nvml.ERROR_INVALID_ARGUMENT, "handle behind the last")
	is(nvml.Shutdown(), nvml.SUCCESS, "shutdown")
	if failures > 0 {
		os.Exit(1)
	}
}
