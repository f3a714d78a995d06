/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lines of the MPS log, and what the faults of tests say. Thread: one. */
#include "lib/base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

/* "[2026-11-23 17:46:54.272 Control   474] text": @tag is Control, Server or Other. One write; -1: nowhere. */
void mps_log(int fd, const char *tag, const char *fmt, ...) PRINTF(3, 4);

/*
 * Whether @word is among those of GPUSLICE_SIM_MPS_FAULT, or of the file mps-fault in the simulated node's
 * directory, which is looked at each time: separated by blanks or commas. ->value: what stands behind its '='.
 *
 *	no-start       the control program says that it cannot, and exits with 1
 *	exit           the same, without a word
 *	hang-start     it is there, holds the directory, and never serves
 *	hang           no command is answered; hang=COMMAND: that one
 *	no-server      a server that is started says so and ends
 *	slow-server=MS a server takes so long
 */
bool mps_fault(const char *word, char *value, size_t cap);
bool mps_fault_is(const char *word);
