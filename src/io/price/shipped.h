/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* catalogue.yaml, embedded by tools/embed-text.py. Inside src/io/price only. */
#include <stddef.h>

extern const char price_shipped[];
extern const size_t price_shipped_len;
