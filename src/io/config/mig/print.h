/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Texts as printed by Go's libraries. Inside src/io/config/mig only. Thread: any. */
#include "lib/base/buf.h"

#define MIG_PRINT_MAX (64U << 20) /* more than any valid file needs */

/* @text in quotes, as encoding/json prints it: <, > and & are escaped, too. */
void mig_json_text(struct buf *b, const char *text);
