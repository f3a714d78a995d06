// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A MIG device says of itself what the instances behind it say, and its GPU knows it.
func checkMigDevice(d nvml.Device, i int, profile nvml.GpuInstanceProfileInfo) {
	m, ret := d.GetMigDeviceHandleByIndex(i)
	if !is(ret, nvml.SUCCESS, "MIG device") {
		return
	}
	isMig, ret := m.IsMigDeviceHandle()
	check(ret == nvml.SUCCESS && isMig, "MIG device %d says that it is none: %v", i, ret)
	uuid, ret := m.GetUUID()
	is(ret, nvml.SUCCESS, "UUID of a MIG device")
	check(strings.HasPrefix(uuid, "MIG-"), "UUID of a MIG device: %s", uuid)
	again, ret := nvml.DeviceGetHandleByUUID(uuid)
	is(ret, nvml.SUCCESS, "MIG device by UUID")
	parent, ret := again.GetDeviceHandleFromMigDeviceHandle()
	is(ret, nvml.SUCCESS, "GPU of a MIG device")
	of, _ := parent.GetUUID()
	self, _ := d.GetUUID()
	check(of == self, "GPU of a MIG device: %s, expected %s", of, self)
	a, ret := m.GetAttributes()
	is(ret, nvml.SUCCESS, "attributes")
	check(a.MultiprocessorCount == profile.MultiprocessorCount && a.MemorySizeMB == profile.MemorySizeMB &&
		a.GpuInstanceSliceCount == profile.SliceCount && a.ComputeInstanceSliceCount == profile.SliceCount,
		"attributes %+v of profile %+v", a, profile)
	memory, ret := m.GetMemoryInfo()
	is(ret, nvml.SUCCESS, "memory of a MIG device")
	check(memory.Total>>20 == profile.MemorySizeMB, "memory of a MIG device: %d MiB, profile: %d", memory.Total>>20, profile.MemorySizeMB)
	giID, ret := m.GetGpuInstanceId()
	is(ret, nvml.SUCCESS, "GPU instance of a MIG device")
	gi, ret := d.GetGpuInstanceById(giID)
	is(ret, nvml.SUCCESS, "GPU instance by id")
	info, ret := gi.GetInfo()
	is(ret, nvml.SUCCESS, "GPU instance info")
	check(info.ProfileId == profile.Id && info.Id == uint32(giID), "GPU instance %+v of profile %d", info, profile.Id)
	ciID, ret := m.GetComputeInstanceId()
	is(ret, nvml.SUCCESS, "compute instance of a MIG device")
	_, ret = gi.GetComputeInstanceById(ciID)
	is(ret, nvml.SUCCESS, "compute instance by id")
	_, ret = m.GetPowerUsage()
	check(ret != nvml.SUCCESS, "a MIG device has a power usage")
}

func fullComputeProfile(gi nvml.GpuInstance, slices uint32) (nvml.ComputeInstanceProfileInfo, bool) {
	for n := 0; n < nvml.COMPUTE_INSTANCE_PROFILE_COUNT; n++ {
		info, ret := gi.GetComputeInstanceProfileInfo(n, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if ret == nvml.SUCCESS && info.SliceCount == slices {
			return info, true
		}
	}
	return nvml.ComputeInstanceProfileInfo{}, false
}

func remaining(d nvml.Device, profile *nvml.GpuInstanceProfileInfo) int {
	n, ret := d.GetGpuInstanceRemainingCapacity(profile)
	is(ret, nvml.SUCCESS, "remaining capacity")
	return n
}

// As many instances of the profile as the GPU takes, and none of them afterwards.
func checkProfile(d nvml.Device, profile nvml.GpuInstanceProfileInfo) int {
	room := remaining(d, &profile)
	check(room == int(profile.InstanceCount), "profile %d: room for %d, at most %d", profile.Id, room, profile.InstanceCount)
	places, ret := d.GetGpuInstancePossiblePlacements(&profile)
	is(ret, nvml.SUCCESS, "placements")
	check(len(places) >= room, "profile %d: %d placements, room for %d", profile.Id, len(places), room)
	for i := 0; i < room; i++ {
		gi, ret := d.CreateGpuInstance(&profile)
		if !is(ret, nvml.SUCCESS, "create GPU instance") {
			return i
		}
		_, ret = d.GetMigDeviceHandleByIndex(i)
		check(ret == nvml.ERROR_NOT_FOUND, "MIG device without compute instance: %v", ret)
		ci, ok := fullComputeProfile(gi, profile.SliceCount)
		check(ok, "profile %d: no compute instance profile with %d slices", profile.Id, profile.SliceCount)
		_, ret = gi.CreateComputeInstance(&ci)
		is(ret, nvml.SUCCESS, "create compute instance")
		is(gi.Destroy(), nvml.ERROR_IN_USE, "destroy GPU instance that holds a compute instance")
		checkMigDevice(d, i, profile)
	}
	_, ret = d.CreateGpuInstance(&profile)
	is(ret, nvml.ERROR_INSUFFICIENT_RESOURCES, "one GPU instance too many")
	check(remaining(d, &profile) == 0, "profile %d: room on a full GPU", profile.Id)
	instances, ret := d.GetGpuInstances(&profile)
	is(ret, nvml.SUCCESS, "list GPU instances")
	check(len(instances) == room, "profile %d: %d GPU instances, expected %d", profile.Id, len(instances), room)
	for _, gi := range instances {
		info, _ := gi.GetInfo()
		ci, ret := gi.GetComputeInstanceById(0)
		is(ret, nvml.SUCCESS, fmt.Sprintf("compute instance 0 of %d", info.Id))
		is(ci.Destroy(), nvml.SUCCESS, "destroy compute instance")
		is(gi.Destroy(), nvml.SUCCESS, "destroy GPU instance")
	}
	check(remaining(d, &profile) == room, "profile %d: not all room came back", profile.Id)
	return room
}

// The first GPU, cut to each of its profiles in turn.
func checkCuts() {
	d, ret := nvml.DeviceGetHandleByIndex(0)
	if !is(ret, nvml.SUCCESS, "handle") {
		return
	}
	activation, ret := d.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	is(ret, nvml.SUCCESS, "switch MIG on")
	is(activation, nvml.SUCCESS, "activation of MIG")
	current, pending, ret := d.GetMigMode()
	check(ret == nvml.SUCCESS && current == 1 && pending == 1, "MIG mode %d %d: %v", current, pending, ret)
	max, ret := d.GetMaxMigDeviceCount()
	check(ret == nvml.SUCCESS && max > 0, "at most %d MIG devices: %v", max, ret)
	profiles, devices := 0, 0
	for n := 0; n < nvml.GPU_INSTANCE_PROFILE_COUNT; n++ {
		profile, ret := d.GetGpuInstanceProfileInfo(n)
		if ret == nvml.SUCCESS {
			profiles++
			devices += checkProfile(d, profile)
			continue
		}
		check(ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT, "profile %d: %v", n, ret)
	}
	check(profiles >= 4, "only %d profiles", profiles)
	_, ret = d.SetMigMode(nvml.DEVICE_MIG_DISABLE)
	is(ret, nvml.SUCCESS, "switch MIG off")
	fmt.Printf("MIG: %d profiles, %d devices made\n", profiles, devices)
}
