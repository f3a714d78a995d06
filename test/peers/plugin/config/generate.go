// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand"
	"strings"
)

// A generator writes configs in YAML's flow style: mostly as somebody would, and now and then with something odd
// in the place of a value. The same seed gives the same configs.
type generator struct {
	*rand.Rand
}

// oddly is how often a place has something odd.
const oddly = 0.04

// pick is one of the usual texts, or seldom an odd one. "" is no key.
func (g generator) pick(usual []string, odd ...string) string {
	if len(odd) > 0 && g.Float64() < oddly {
		return odd[g.Intn(len(odd))]
	}
	return usual[g.Intn(len(usual))]
}

// object writes the keys that have a value.
func (g generator) object(pairs ...string) string {
	var keys []string
	for i := 0; i < len(pairs); i += 2 {
		key := pairs[i]
		if pairs[i+1] == "" {
			continue
		}
		if g.Float64() < oddly/4 {
			key = strings.ToUpper(key[:1]) + key[1:]
		}
		keys = append(keys, fmt.Sprintf("%s: %s", key, pairs[i+1]))
		if g.Float64() < oddly/8 {
			keys = append(keys, keys[len(keys)-1])
		}
	}
	if g.Float64() < oddly/4 {
		keys = append(keys, "extra: 1")
	}
	g.Shuffle(len(keys), func(i, k int) { keys[i], keys[k] = keys[k], keys[i] })
	return g.pick([]string{"{" + strings.Join(keys, ", ") + "}"}, "[]", "null", "text")
}

func (g generator) list(element func() string, most int) string {
	var elements []string
	for i := 1 + g.Intn(most); i > 0; i-- {
		elements = append(elements, element())
	}
	return g.pick([]string{"[" + strings.Join(elements, ", ") + "]"}, "[]", "null", "[null]", "{}", "text")
}

func (g generator) boolean() string {
	return g.pick([]string{"", "", "true", "false", "yes", "off"}, `"true"`, "1", "null", "~", "True", "text")
}

func (g generator) path() string {
	return g.pick([]string{"", "/", "/run/nvidia/driver", `"/a b"`}, "5", "true", "null", "[/a]", `""`)
}

func (g generator) name() string {
	return g.pick([]string{"nvidia.com/gpu", "nvidia.com/gpu", "gpu", "nvidia.com/mig-1g.5gb"},
		"example.com/gpu", "nvidia.com/GPU", "nvidia.com/", `""`, "5", "null", "nvidia.com/a/b",
		"nvidia.com/"+strings.Repeat("a", 70), "nvidia.com/gpu_x")
}

func (g generator) entry() string {
	const uuid = "GPU-8dcd427f-483b-b48f-d7e5-75fb19a52b76"
	return g.object(
		"name", g.pick([]string{g.name()}, ""),
		"replicas", g.pick([]string{"2", "4", "10", "48"}, "", "1", "0", "-1", `"4"`, "4.0", "2.5", "0x10", "010",
			"1e1", "null", "100000", "[4]", "true", "4_0"),
		"devices", g.pick([]string{"", "", "", "all"}, "All", "2", "0", "-1", "[0]", `["0", "0:1"]`, "["+uuid+"]",
			"[GPU-1]", "[]", "null", "[[0]]", "{}", "["+strings.ToLower(uuid)+"]"),
		"rename", g.pick([]string{"", "", "", "nvidia.com/gpu.part"}, "nvidia.com/GPU", "null", "5", `""`))
}

func (g generator) replicated() string {
	return g.object(
		"renameByDefault", g.boolean(),
		"failRequestsGreaterThanOne", g.boolean(),
		"resources", g.pick([]string{g.list(g.entry, 2)}, ""))
}

func (g generator) resource() string {
	return g.object(
		"pattern", g.pick([]string{`"*"`, "Tesla T4", `"NVIDIA A100*"`}, "", `""`, "5", "null", "[a]"),
		"name", g.pick([]string{g.name()}, ""))
}

func (g generator) flags() string {
	strategies := []string{"envvar", "volume-mounts", "cdi-annotations", "cdi-cri"}
	plugin := g.object(
		"passDeviceSpecs", g.boolean(),
		"deviceListStrategy", g.pick([]string{"", "", "envvar", g.list(func() string { return g.pick(strategies, "env", "5") }, 2)},
			"envvar,cdi-cri", "null", "5", "env"),
		"deviceIDStrategy", g.pick([]string{"", "uuid", "index"}, "UUID", "null", "5"),
		"cdiAnnotationPrefix", g.pick([]string{"", "cdi.k8s.io/"}, "5", "null"),
		"containerDriverRoot", g.path())
	return g.object(
		"migStrategy", g.pick([]string{"", "none", "single", "mixed"}, "Single", "null", "5", `""`),
		"failOnInitError", g.boolean(),
		"mpsRoot", g.path(),
		"nvidiaDriverRoot", g.path(),
		"nvidiaDevRoot", g.path(),
		"gdsEnabled", g.boolean(),
		"mofedEnabled", g.boolean(),
		"deviceDiscoveryStrategy", g.pick([]string{"", "auto", "nvml"}, "tegra", "null", "x"),
		"plugin", g.pick([]string{"", plugin}),
		"gfd", g.pick([]string{"", g.object(
			"oneshot", g.boolean(),
			"noTimestamp", g.boolean(),
			"sleepInterval", g.pick([]string{"", "60s", "1m0s", "1m"}, "60", "1minute", "null", "1.5s", "1d", "-1s"),
			"outputFile", g.path())}))
}

// config is a whole file.
func (g generator) config() string {
	keys := []string{
		"version", g.pick([]string{"v1"}, "", "v2", "V1", "1", "null", `""`, "v1beta1"),
		"flags", g.pick([]string{"", g.flags()}),
		"resources", g.pick([]string{"", "", "", g.object("gpus", g.list(g.resource, 2), "mig", g.pick([]string{"", g.list(g.resource, 2)}))}),
		"sharing", g.pick([]string{"", g.object("timeSlicing", g.replicated()), g.object("timeSlicing", g.replicated()),
			g.object("timeSlicing", g.pick([]string{"", g.replicated()}), "mps", g.replicated())}),
		"imex", g.pick([]string{"", "", "", g.object(
			"channelIDs", g.pick([]string{"[0]", "[]"}, "0", "[1]", "[0, 0]", "null", `["0"]`),
			"required", g.boolean())}),
	}
	text := ""
	for i := 0; i < len(keys); i += 2 {
		if keys[i+1] != "" {
			text += fmt.Sprintf("%s: %s\n", keys[i], keys[i+1])
		}
	}
	if g.Float64() < oddly {
		holder := "x: &gpu {name: nvidia.com/gpu, replicas: 4}\n"
		use := []string{"sharing: {timeSlicing: {resources: [*gpu]}}\n", "sharing: {timeSlicing: {resources: [{<<: *gpu, rename: gpu.part}]}}\n"}
		text = holder + use[g.Intn(2)]
	}
	if g.Float64() < oddly/4 {
		text += "--- {version: v2}\n"
	}
	if g.Float64() < oddly/4 {
		text = strings.Replace(text, ": ", ":\t", 1)
	}
	return g.pick([]string{text}, "", "# nothing\n", "\xef\xbb\xbf"+text, text+"}\n", strings.ReplaceAll(text, "\n", "\r\n"), "[]\n", "text\n", "null\n")
}
