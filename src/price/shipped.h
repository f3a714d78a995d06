/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* catalogue.yaml, as it is embedded (config/embed-text.py). Inside src/price only. */
#include <stddef.h>

extern const char price_shipped[];
extern const size_t price_shipped_len;
