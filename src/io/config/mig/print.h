/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Texts as Go's libraries print them. Inside src/io/config/mig only. Thread: any. */
#include "lib/base/buf.h"

#define MIG_PRINT_MAX (64U << 20) /* more than any file of the limits in core/mig/ comes to */

/* "text" with its quotes, as encoding/json does: <, > and & are escaped too. */
void mig_json_text(struct buf *b, const char *text);
