/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Help for those who print JSON. Thread: any. */
#include <jansson.h>

/* A JSON text from any bytes: what is no UTF-8 becomes "?". New reference; NULL: no memory. */
json_t *json_any_text(const char *text);
