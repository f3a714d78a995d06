/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The subcommands of `gpuslice bench`. */
#include "tools/cli/cmd.h"

extern const struct cmd cmd_bench_compare;
extern const struct cmd cmd_bench_report;
