// SPDX-License-Identifier: Apache-2.0

// Command config holds `gpuslice config check` against the parser of NVIDIA's device plugin on generated configs:
// config GPUSLICE TABLE COUNT SEED. What the two say differently must be in a table of the file TABLE, whose rows name
// a difference by a part of the message of whoever refuses, or by the key whose value differs.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"

	nvidia "github.com/NVIDIA/k8s-device-plugin/api/config/v1"
	cli "github.com/urfave/cli/v2"
)

// An opinion is what one of the two says of a config: an error, or the values that both know.
type opinion struct {
	err    string
	values map[string]any
}

// An answer is what `gpuslice config check --json` says of one file.
type answer struct {
	Name  string
	Good  bool
	Error struct {
		Text string
		More []string
	}
	Config json.RawMessage
}

// A row of the table: who refuses, and how it is named.
type row struct {
	who, name string
	used      int
}

// flatten gives each value a path, so that they can be compared one by one. The list of strategies is a set.
func flatten(path string, value any, to map[string]any) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			flatten(path+"."+key, below, to)
		}
	case []any:
		if strings.HasSuffix(path, ".deviceListStrategy") {
			for _, word := range v {
				to[fmt.Sprintf("%s.%v", path[1:], word)] = true
			}
			return
		}
		for i, below := range v {
			flatten(fmt.Sprintf("%s[%d]", path, i), below, to)
		}
	case nil:
	default:
		to[path[1:]] = v
	}
}

func valuesOf(text []byte) map[string]any {
	var tree any
	if err := json.Unmarshal(text, &tree); err != nil {
		log.Fatalf("%v: %s", err, text)
	}
	values := map[string]any{}
	flatten("", tree, values)
	return values
}

// theirs asks NVIDIA's parser, as their program does: by the option that names the file.
func theirs(file string) opinion {
	var config *nvidia.Config
	var err error
	app := cli.NewApp()
	app.Flags = []cli.Flag{&cli.StringFlag{Name: "config-file"}}
	app.Action = func(c *cli.Context) error {
		config, err = nvidia.NewConfig(c, app.Flags)
		return nil
	}
	if e := app.Run([]string{"config", "--config-file", file}); e != nil {
		log.Fatal(e)
	}
	if err != nil {
		return opinion{err: err.Error()}
	}
	text, err := json.Marshal(config)
	if err != nil {
		log.Fatal(err)
	}
	return opinion{values: valuesOf(text)}
}

// ours asks gpuslice about all files at once.
func ours(program string, files []string) []opinion {
	var out bytes.Buffer
	command := exec.Command(program, append([]string{"config", "check", "--json"}, files...)...)
	command.Stdout = &out
	_ = command.Run() // its status says that some are refused
	var all struct{ Configs []answer }
	if err := json.Unmarshal(out.Bytes(), &all); err != nil || len(all.Configs) != len(files) {
		log.Fatalf("gpuslice config check: %d answers to %d files, %v", len(all.Configs), len(files), err)
	}
	opinions := make([]opinion, len(files))
	for i, a := range all.Configs {
		if a.Good {
			opinions[i].values = valuesOf(a.Config)
		} else {
			opinions[i].err = strings.Join(append([]string{a.Error.Text}, a.Error.More...), "\n")
		}
	}
	return opinions
}

// readTable takes the rows whose first column is "gpuslice", "NVIDIA" or "value", and whose last is in backticks.
func readTable(file string) []*row {
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	var rows []*row
	for _, m := range regexp.MustCompile("(?m)^\\| (gpuslice|NVIDIA|value) \\|.*\\| `([^`]+)` \\|$").FindAllSubmatch(text, -1) {
		rows = append(rows, &row{who: string(m[1]), name: string(m[2])})
	}
	return rows
}

// named finds whether all lines are named by rows of one kind, and notes them.
func named(rows []*row, who string, lines []string) bool {
	for _, line := range lines {
		found := false
		for _, r := range rows {
			if r.who == who && strings.Contains(line, r.name) {
				r.used++
				found = true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// rename is how a shared resource is called, which gpuslice prints only where the config says it.
func (o opinion) rename(path string) any {
	is := o.values[path]
	entry := strings.TrimSuffix(path, ".rename")
	kind, _, _ := strings.Cut(path, ".resources")
	if is == nil && entry != path && o.values[kind+".renameByDefault"] == true {
		return fmt.Sprintf("%v.shared", o.values[entry+".name"])
	}
	return is
}

// differing lists the paths that NVIDIA's parser has set and that are other ones here. What is absent, null or the zero
// value is the same, as the command line fills in the defaults. `config check` does not print flags.gfd.
func differing(t, o opinion) []string {
	var paths []string
	for path, value := range t.values {
		if reflect.ValueOf(value).IsZero() || strings.HasPrefix(path, "flags.gfd.") {
			continue
		}
		if is := o.rename(path); !reflect.DeepEqual(is, value) {
			paths = append(paths, fmt.Sprintf("%s: NVIDIA %v, gpuslice %v", path, value, is))
		}
	}
	sort.Strings(paths)
	return paths
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 5 {
		log.Fatal("usage: config GPUSLICE TABLE COUNT SEED")
	}
	count, _ := strconv.Atoi(os.Args[3])
	seed, _ := strconv.ParseInt(os.Args[4], 10, 64)
	g := generator{rand.New(rand.NewSource(seed))}
	dir, err := os.MkdirTemp("", "configs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	files := make([]string, count)
	for i := range files {
		files[i] = filepath.Join(dir, fmt.Sprintf("%04d.yaml", i))
		if err := os.WriteFile(files[i], []byte(g.config()), 0o600); err != nil {
			log.Fatal(err)
		}
	}

	rows := readTable(os.Args[2])
	alike, stricter, laxer, other, failures := 0, 0, 0, 0, 0
	for i, o := range ours(os.Args[1], files) {
		var good bool
		var what []string
		t := theirs(files[i])
		switch {
		case t.err != "" && o.err != "":
			alike++
			continue
		case o.err != "":
			stricter++
			what = strings.Split(o.err, "\n")
			good = named(rows, "gpuslice", what)
		case t.err != "":
			laxer++
			what = []string{t.err}
			good = named(rows, "NVIDIA", what)
		default:
			if what = differing(t, o); len(what) == 0 {
				alike++
				continue
			}
			other++
			good = named(rows, "value", what)
		}
		if !good {
			text, _ := os.ReadFile(files[i])
			fmt.Printf("FAIL not in the table:\n  %s\nof\n%s\n", strings.Join(what, "\n  "), text)
			failures++
		}
	}
	fmt.Printf("%d configs: %d alike, %d refused by gpuslice alone, %d by NVIDIA alone, %d with another value; %d not in the table\n",
		count, alike, stricter, laxer, other, failures)
	if failures > 0 {
		os.Exit(1)
	}
}
