#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The repository's own tools: what they must notice, on trees and machines made up for it.

bats_require_minimum_version 1.5.0

setup() {
	ROOT=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
	FAKE=$BATS_TEST_TMPDIR/fake
	mkdir "$FAKE"
}

# fake NAME BODY: a command that comes before the real one.
fake() {
	printf '#!/usr/bin/env bash\n%s\n' "$2" >"$FAKE/$1"
	chmod +x "$FAKE/$1"
}

# A Debian machine on which everything but libfyaml-dev is installed.
fake_machine() {
	fake dpkg-query 'shift 3; for p; do [[ $p == libfyaml-dev ]] || echo "$p ii "; done; exit 1'
	fake apt-get 'echo "apt-get $*" >>"$(dirname "$0")/log"'
	fake id 'echo 1000'
	fake sudo 'exit 1'
}

setup_tool() {
	PATH="$FAKE:$PATH" GPUSLICE_SETUP_RETRY_S=0 "$ROOT/tools/setup" "$@"
}

@test "setup reports missing packages when it cannot install them" {
	fake_machine
	run -1 setup_tool
	[[ $output == *'apt-get install -y --no-install-recommends libfyaml-dev'* ]]
	[[ $output != *jansson* ]]
	[[ ! -e $FAKE/log ]]
}

@test "setup installs missing packages as root, without fetching lists that are valid" {
	fake_machine
	fake id 'echo 0'
	run -0 setup_tool build
	run -0 cat "$FAKE/log"
	[[ $output == *'install -y -q --no-install-recommends libfyaml-dev'* ]]
	[[ $output != *update* ]]
}

@test "setup fetches the lists when the package is not in them" {
	fake_machine
	fake id 'echo 0'
	fake apt-get 'echo "apt-get $*" >>"$(dirname "$0")/log"; [[ $* != *dry-run* ]]'
	run -0 setup_tool build
	run -0 cat "$FAKE/log"
	[[ $output == *'update -q'*'install -y -q'* ]]
}

@test "setup tries again, and reports when it cannot install" {
	fake_machine
	fake id 'echo 0'
	fake apt-get 'echo "apt-get $*" >>"$(dirname "$0")/log"; [[ $* != *"install -y"* ]]'
	run -1 setup_tool build
	[[ $output == *'could not install: libfyaml-dev'* ]]
	[[ $(grep -c 'install -y' "$FAKE/log") == 4 ]]
}

@test "setup does nothing where nothing is missing, and refuses unknown groups" {
	fake_machine
	fake dpkg-query 'shift 3; for p; do echo "$p:amd64 ii "; done'
	run -0 setup_tool build test lint fuzz
	[[ -z $output ]]
	run -1 setup_tool everything
	[[ $output == *everything* ]]
}

# Makes a tree of the project's tools and no source in $tree, and goes there.
empty_tree() {
	tree=$BATS_TEST_TMPDIR/tree
	mkdir -p "$tree"/src/{model,io/price,node/agent,tools/cli} "$tree/test" "$tree/build"
	cp -r "$ROOT/tools" "$tree"
	cd "$tree"
}

@test "includes that the layers do not allow are noticed" {
	empty_tree
	cat >src/model/bad.c <<-'END'
		#include "node/agent/a.h"
		#include <uv.h>
		#include <time.h>
		#include "../x.h"
		#include "model.h"
	END
	cat >src/node/agent/bad.c <<-'END'
		#include "node/view/view.h"
		#include "io/web/parts/internal.h"
		#include "io/price/price.h"
	END
	printf '/* Inside src/io/price only. */\n#include "node/agent/a.h"\n' >src/io/price/price.h
	run -1 tools/check-layers.sh
	[[ $output == *'src/model/bad.c:1: model may not include "node/agent/a.h"'* ]]
	[[ $output == *'model may not include the library header <uv.h>'* ]]
	[[ $output == *'clock'*'<time.h>'* ]]
	[[ $output == *'without ../'* ]]
	[[ $output == *'as "model/model.h"'* ]]
	[[ $output == *'"io/web/parts/internal.h" is for src/io/web/parts/ only'* ]]
	[[ $output == *'"io/price/price.h" is for src/io/price/ only'* ]]
	[[ $output == *'io/price may not include "node/agent/a.h"'* && $output != *view.h* ]]
	rm src/*/*.c src/*/*/*.[ch]
	printf 'deps = [base, sim_control]\n' | tee src/tools/cli/meson.build >src/tools/meson.build
	run -1 tools/check-layers.sh
	[[ $output == *'src/tools/meson.build:1:'*'may link parts of the simulator'* && $output != *cli/meson.build:* ]]
}

@test "a module, a library and a test that lie elsewhere are noticed" {
	empty_tree
	mkdir -p src/io/web/parts src/node/agent/bad test/unit/io/none
	touch src/node/agent/bad.h src/io/web/{a,b}.c src/io/web/parts/{x-internal.h,c.c}
	printf "a = static_library('other', 'a.c', 'parts/c.c', '../d.c')\n" >src/io/web/meson.build
	printf "b = static_library('web-parts', 'c.c')\n" >src/io/web/parts/meson.build
	run -1 tools/check-tree.sh
	[[ $output == *'src/node/agent/bad.h: belongs into src/node/agent/bad/'* ]]
	[[ $output == *'x-internal.h: put it into'* ]]
	[[ $output == *'src/io/web/b.c: src/io/web/meson.build does not name it'* ]]
	[[ $output == *"name the library 'other' after its folder, 'web'"* && $output != *"library 'web-parts'"* ]]
	[[ $output == *"'parts/c.c' is of parts/meson.build"* && $output == *"'../d.c' is of another folder"* ]]
	[[ $output == *'test/unit/io/none: there is no src/io/none'* ]]
}

@test "a function that no header of its folder declares is noticed" {
	empty_tree
	mkdir -p src/io/web/parts test/unit
	printf "a = static_library('web', 'a.c', 'parts/b.c')\n" >src/io/web/meson.build
	printf 'int web_one(void);\n' >src/io/web/web.h
	printf '/* web_four() */\nint web_two(void);\nint web_three(void);\nint web_four(void);\n' >src/io/web/internal.h
	printf '/* web_four() */\nint web_three(int a,\n\tint b);\n' >src/io/web/parts/b.h
	printf '/* License. */\n/* Web. */\nint web_two(void)\n{\n}\nint main(void)\n{\n}\n' >src/io/web/a.c
	printf 'static int five(void);\nstatic int five(void)\n{\n}\nint web_one(void)\n{\n}\n' >src/io/web/parts/b.c
	printf 'int web_three(int a,\n\tint b)\n{\n}\n' >>src/io/web/parts/b.c
	tools/check-tree.sh
	printf 'const char *web_four(void)\n{\n}\nint web_two(void)\n{\n}\n' >>src/io/web/parts/b.c
	run -1 tools/check-tree.sh
	[[ $output == *'src/io/web/parts/b.c: no header of src/io/web/parts/ declares web_four()'* ]]
	[[ $output == *'src/io/web/parts/b.c: no header of src/io/web/parts/ declares web_two()'* ]]
	[[ $(grep -c 'no header of' <<<"$output") -eq 2 ]]
}

@test "a source file without a head, and another form of a section's title, are noticed" {
	empty_tree
	mkdir -p src/io/web test/unit
	printf "a = static_library('web', 'a.c', 'b.c', 'c.c', 'd.c')\n" >src/io/web/meson.build
	license='/* SPDX-License-Identifier: Apache-2.0 */'
	printf '%s\n\n/* Reads. */\n#include "x.h"\n' "$license" >src/io/web/a.c
	printf '%s\n#include "x.h"\n\n/* Reads\n * more. */\n\nint x;\n' "$license" >src/io/web/b.c
	printf '%s\n#include "c.h"\n\n/* --- life --- */\n\nint y;\n' "$license" >src/io/web/c.c
	printf '%s\n' "$license" >src/io/web/c.h
	printf '%s\n/* Reads. */\n' "$license" >src/io/web/d.c
	tools/check-tree.sh
	printf '%s\n#include "x.h"\n\n/* Of the variable. */\nint x;\n' "$license" >src/io/web/a.c
	printf '%s\n#include "x.h"\n\n/* --- life --- */\n\nint x;\n' "$license" >src/io/web/b.c
	printf '/* ---- life ---- */\n' >test/a.c
	run -1 tools/check-tree.sh
	[[ $output == *'src/io/web/a.c: begin it with a comment'*'src/io/web/b.c: begin it with a comment'* ]]
	[[ $output == *'test/a.c:1: write the title of a section as "/* --- title --- */"'* ]]
	[[ $(wc -l <<<"$output") -eq 4 ]]
}

@test "names that two functions or types share are noticed, and functions without an object" {
	empty_tree
	printf 'static void apply(void)\n{\n}\nstruct a {\n\tint x;\n};\n' >src/model/a.c
	run -1 tools/check-names.py
	[[ $output == *'src/model/a.c:1: apply'*'100.0 % of 1 functions have no object'* ]]
	printf 'static void apply_plan(void)\n{\n}\n/* struct b { */ struct b {\n\tint x;\n};\n' >src/model/a.c
	tools/check-names.py
	cp src/model/a.c src/io/price/b.c
	run -1 tools/check-names.py
	[[ $output == *'src/io/price/b.c:1: apply_plan'*'100.0 % of 2 functions have another'* ]]
	[[ $output == *'src/model/a.c:4: b'*'100.0 % of 2 types have another'* ]]
	printf 'typedef struct b b_fn(int x);\n' >src/io/price/b.c
	tools/check-names.py
	printf 'typedef int (*other_fn)(int x);\ntypedef int b;\n' >src/io/price/b.c
	run -1 tools/check-names.py
	[[ $output == *'src/io/price/b.c:2: b'* ]]
	printf 'static bool is_ready(void)\n{\n}\nstatic const char *has_name(void)\n{\n}\n' >src/io/price/b.c
	run -1 tools/check-names.py
	[[ $output == *'src/io/price/b.c:4: has_name'* && $output != *'b.c:1: is_ready'* ]]
}

@test "functions that nothing needs are noticed" {
	empty_tree
	mkdir -p build/src/model/libmodel.a.p build/test
	sed -i '/^KEPT = {/,/^}/c\KEPT = {}' tools/check-unused.py
	object() { # FILE TEXT
		printf '%s\n' "$2" >"$1.c"
		cc -c -o "build/$1.c.o" "$1.c"
	}
	mkdir -p src/model/libmodel.a.p
	object src/model/libmodel.a.p/a $'void seam_used(void)\n{\n}\nvoid own_used(void)\n{\n\tseam_used();\n}\nvoid test_used(void)\n{\n}\nvoid not_used(void)\n{\n}\nvoid other_used(void)\n{\n\town_used();\n}'
	object src/model/libmodel.a.p/b $'void other_used(void);\nint main(void)\n{\n\tother_used();\n}'
	object test/t $'void seam_used(void);\nvoid test_used(void);\nvoid t(void)\n{\n\tseam_used();\n\ttest_used();\n}'
	run -1 tools/check-unused.py build
	[[ $output == *'a.c: own_used() is used in its own file only: make it static'* ]]
	[[ $output == *'a.c: test_used() is used by tests only'* && $output == *'a.c: not_used() is not used'* ]]
	[[ $output == *', 3 that nothing needs'* ]]
}

@test "words that comments should not have are noticed" {
	empty_tree
	cat >src/model/a.c <<-'END'
		/* The thread is blocked. seat_count() and TURN_METERED are names.
		 * It is looked at anew, by who comes. */
		static const char a[] = "/* a keeper */"; /* the process whose gate is closed */
	END
	run -1 tools/check-words.py
	[[ $output == *"src/model/a.c:2: 'anew': write again"* && $output == *"src/model/a.c:2: 'who' without a noun"* ]]
	[[ $output == *"src/model/a.c:2: 'is looked'"* && $output == *'1 files, 3 words'* ]]
	sed -i 2d src/model/a.c
	sed -i '1s|$| */|' src/model/a.c
	tools/check-words.py
	printf '/* It is set. */\n/* Which is set. */\n/* The number which is set. */\n' >src/model/a.c
	run -1 tools/check-words.py
	[[ $output == *'src/model/a.c:1: '*'src/model/a.c:2: '* && $output == *' 2 words'* ]]
	printf '/* The number is set. */\n' >src/model/a.c
	# In test/ names of functions are read too. Names of programs, options and values are no words.
	cat >test/a.c <<-'END'
		/* make-ledger --strangers UID=nobody */
		static void run__says_anew_who_asked(void **state)
		{
			looks_at_nobody(state);
		}
		static void run__looks_up_a_process_whose_name_is_known(void)
		{
		}
	END
	run -1 tools/check-words.py
	[[ $output == *"test/a.c:2: 'anew' in run__says_anew_who_asked(): write again"* && $output == *"test/a.c:2: 'says' in "* ]]
	[[ $output == *"test/a.c:2: 'who' in "* && $output == *'2 files, 3 words'* ]]
	sed -i 's/says_anew_who_asked/reports_again/' test/a.c
	tools/check-words.py
}

@test "files that call each other in a circle are noticed, and callbacks are none" {
	empty_tree
	mkdir -p build/src/node/x/libx.a.p
	object() { # NAME TEXT
		printf '%s\n' "$2" | cc -x c -c -o "build/src/node/x/libx.a.p/$1.c.o" -
	}
	object a 'void b(void); void a(void); void a(void) { b(); }'
	object b 'void c(void); void b(void); void b(void) { c(); }'
	object c 'void (*f)(void); void c(void); void c(void) { f(); }'
	tools/check-circles.py build node/x
	object c 'void a(void); void c(void); void c(void) { a(); }'
	run -1 tools/check-circles.py build node/x
	[[ $output == *'3 files call each other in a circle, at most 1 may: node/x/a.c, node/x/b.c, node/x/c.c'* ]]
	run -1 tools/check-circles.py build node/y
	[[ $output == *'build/src/node/y has no object files: build it first'* ]]
}

@test "files that a document names and that are not there are noticed" {
	empty_tree
	mkdir -p docs/results
	touch src/io/price/{read,amount}.c
	mkdir -p docs/design
	printf '| gone | `price_read()`, `price_lost()`, `test-price` |\n[a](../b.md#its-heading) [b](../b.md#none) [c](lost.md) [d](https://x.y)\n' >docs/design/where.md
	cat >ARCHITECTURE.md <<-'END'
		`src/io/price/read.c`, `src/io/*/amount.c`, `src/tools/cli/cmd-NAME.c`, `io/price`, `gone.c`
		| prices | `src/io/price/`: `read.c`, `gone.c`; `src/tools/cli/`, `io/price` (`amount.c`) |
		| names | `price_read()`, `price_gone()` | `test-price`, `test-gone`, `price.bats`, `gone.bats` |
	END
	echo 'int price_read(void);' >src/io/price/read.h
	mkdir -p test/unit test/integration
	touch test/unit/test-price.c test/integration/price.bats
	touch src/tools/cli/cmd-top.c
	printf '`test/unit/gone.c`\n## Its *heading*\n' | tee docs/results/a.md >docs/b.md
	run -1 tools/check-paths.py
	[[ $output == *'ARCHITECTURE.md:2: there is no gone.c in src/io/price/'* ]]
	[[ $output == *'docs/b.md:1: there is no test/unit/gone.c'* && $output == *'3 documents, 8 names'* ]]
	[[ $output == *'docs/design/where.md:1: there is no function price_lost()'* ]]
	[[ $output == *'docs/design/where.md:2: docs/b.md has no heading #none'* ]]
	[[ $output == *'docs/design/where.md:2: the link leads to no docs/design/lost.md'* ]]
	[[ $output == *'ARCHITECTURE.md:3: there is no function price_gone()'* ]]
	[[ $output == *'ARCHITECTURE.md:3: there is no test test-gone'*'there is no test gone.bats'* ]]
	rm src/tools/cli/cmd-top.c
	run -1 tools/check-paths.py ARCHITECTURE.md
	[[ $output == *'ARCHITECTURE.md:1: there is no src/tools/cli/cmd-NAME.c'* ]]
}

@test "files that a comment names and that are not there are noticed" {
	empty_tree
	printf '/* price/read.c,\n * read.c, <string.h>, io/read.c, gone.h */\nchar a[] = "/* none.c */";\n' >src/io/price/read.c
	run -1 tools/check-paths.py
	[[ $output == *'src/io/price/read.c:2: there is no io/read.c'*'src/io/price/read.c:2: there is no gone.h'* ]]
	[[ $output == *'2 names'* ]]
}

@test "banned calls and headers that do not stand alone are noticed" {
	empty_tree
	printf 'void f(void)\n{\n\t/* strcpy() */ log("atoi(x)");\n\tsprintf(a, "%%d", strtol(b));\n}\n' >src/node/agent/bad.c
	printf '/* SPDX-License-Identifier: Apache-2.0 */\nstruct a { size_t n; };\n' >src/node/agent/bad.h
	run -1 tools/check-banned.sh
	[[ $output == *'src/node/agent/bad.c:4: sprintf()'*'src/node/agent/bad.c:4: strtol()'*'2 banned'* ]]
	run -1 tools/check-headers.sh build
	[[ $output == *'src/node/agent/bad.c: the first line'* ]]
	[[ $output == *'src/node/agent/bad.h: no #pragma once'* ]]
	[[ $output == *'src/node/agent/bad.h: does not compile alone'* ]]
}

@test "a stage holds what the build installs, and is left alone while the build is the same" {
	local build=$BATS_TEST_TMPDIR/build stage=$BATS_TEST_TMPDIR/stage
	mkdir "$build"
	touch "$build/build.ninja" "$build/.ninja_log"
	fake meson 'echo run >>"$(dirname "$0")/log"; mkdir -p "$DESTDIR/bin"; touch "$DESTDIR/bin/x"'
	PATH="$FAKE:$PATH" "$ROOT/tools/stage" "$build" "$stage"
	[[ -e $stage/bin/x ]]
	touch "$stage/bin/old"
	PATH="$FAKE:$PATH" "$ROOT/tools/stage" "$build" "$stage"
	[[ $(wc -l <"$FAKE/log") == 1 && -e $stage/bin/old ]]
	touch -d '+1 second' "$build/.ninja_log"
	PATH="$FAKE:$PATH" "$ROOT/tools/stage" "$build" "$stage"
	[[ $(wc -l <"$FAKE/log") == 2 && ! -e $stage/bin/old ]]
}

@test "a build without a terminal shows how far it is, and what compilers print" {
	fake ninja '
		for ((n = 1; n <= 100; n++)); do
			printf "%s\n" "${NINJA_STATUS/\%f\/\%t/$n/100}Compiling $n"
			[[ $n != 42 ]] || printf "a.c:1: warning: something\n"
		done
		exit "${FAKE_STATUS-0}"'
	PATH="$FAKE:$PATH" run -0 "$ROOT/tools/compile" "$BATS_TEST_TMPDIR"
	[[ ${#lines[@]} == 12 ]] # 0 % to 100 %, and the warning
	[[ $output == *'compiling: 40 of 100 steps'*'a.c:1: warning: something'*'compiling: 100 of 100 steps'* ]]
	PATH="$FAKE:$PATH" FAKE_STATUS=1 run -1 "$ROOT/tools/compile" "$BATS_TEST_TMPDIR"
	fake ninja 'echo "ninja: Entering directory x"; echo "ninja: no work to do."'
	PATH="$FAKE:$PATH" run -0 "$ROOT/tools/compile" "$BATS_TEST_TMPDIR"
	[[ -z $output ]]
}

# A tree with the gate's script alone, and a `make` that does what FAKE_STATUS says.
fake_gate() {
	TREE=$BATS_TEST_TMPDIR/tree
	mkdir -p "$TREE/.ci"
	cp "$ROOT/.ci/run" "$TREE/.ci"
	fake make 'echo "make $*"; exit "${FAKE_STATUS-0}"'
}

@test "the gate keeps the last result of each step with its tree, and counts in its last line" {
	fake_gate
	git -C "$TREE" init -q
	git -C "$TREE" -c user.name=a -c user.email=a@b commit -q --allow-empty -m one
	printf 'build\n.ci\n' >"$TREE/.git/info/exclude"
	PATH="$FAKE:$PATH" FAKE_STATUS=3 run -1 "$TREE/.ci/run" demo test
	[[ ${lines[-1]} == '0 passed, 2 failed, 0 skipped' ]]
	[[ $output == *'failed: demo test'* ]]
	PATH="$FAKE:$PATH" FAKE_STATUS=77 run -0 "$TREE/.ci/run" demo
	[[ ${lines[-1]} == '0 passed, 0 failed, 1 skipped' ]]
	touch "$TREE/changed"
	PATH="$FAKE:$PATH" run -0 "$TREE/.ci/run" tour
	[[ ${lines[-1]} == '1 passed, 0 failed, 0 skipped' ]]
	run -0 "$TREE/.ci/run" --results
	[[ $output =~ demo\ +gate\ +skipped ]]
	[[ $output =~ test\ +gate\ +FAILED ]]
	[[ $output =~ tour\ +nightly\ +passed\ +0:0[0-9]\ min\ +[0-9a-f]{9}\+ ]]
	run -2 "$TREE/.ci/run" nothing
	[[ $output == *"no step 'nothing'"* ]]
}

@test "CONTRIBUTING.md says where each step of the gate and the nightly runs" {
	local name where bad=0
	while read -r name where _; do
		[[ $name == setup ]] || grep -E '^\| `' "$ROOT/CONTRIBUTING.md" | awk -F '|' -v name="\`$name\`" -v where="$where" '
			index($2, name) && $3 ~ where { found = 1 } END { exit !found }' || {
			echo "CONTRIBUTING.md has no row for the step '$name' ($where)"
			bad=1
		}
	done < <("$ROOT/.ci/run" --list)
	[[ $bad == 0 ]]
}

