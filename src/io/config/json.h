/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Helper for code that prints JSON. Thread: any. */
#include <jansson.h>

/* A JSON text from any bytes. Invalid UTF-8 becomes "?". New reference; NULL: no memory. */
json_t *json_any_text(const char *text);
