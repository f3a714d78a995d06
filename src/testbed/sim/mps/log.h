/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Lines of the MPS log, and the faults that tests ask for. Thread: one. */
#include "lib/base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Writes a line "[2026-11-23 17:46:54.272 Control   474] text" with one write; @tag is Control, Server or Other.
 * @fd -1: no log.
 */
void mps_log(int fd, const char *tag, const char *fmt, ...) PRINTF(3, 4);

/*
 * Whether @word is among the faults of GPUSLICE_SIM_MPS_FAULT, or of the file mps-fault in the simulated node's
 * directory, read at each call. Faults are separated by blanks or commas. @value gets the text behind a fault's
 * '='.
 *
 *	no-start       the control program prints an error and exits with 1;
 *	exit           the control program exits with 1, without an error message;
 *	hang-start     the daemon locks the directory and never serves;
 *	hang           the daemon answers no command; hang=COMMAND: not this command;
 *	no-server      a server logs an error and ends at its start;
 *	slow-server=MS a server starts this much later
 */
bool mps_fault(const char *word, char *value, size_t cap);
bool mps_fault_is(const char *word);
