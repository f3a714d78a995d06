/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Objects of a stand-in's answer: their fields, and their description in the form of `kubectl describe`.
 * Thread: any (pure).
 */
#include "lib/base/buf.h"

#include <jansson.h>
#include <stdbool.h>

/* The field @a of @o, or with @b the field @b of that object. A missing field is "" or 0. Borrowed from @o. */
const char *kubelet_item_text(json_t *o, const char *a, const char *b);
long long kubelet_item_number(json_t *o, const char *a, const char *b);

/* In whole seconds, as kubectl prints ages. @text has TIME_AGE_MAX bytes. */
const char *kubelet_item_age(json_t *o, char *text);

/* Whether the first condition of the stand-in's node, Ready, is "True". */
bool kubelet_node_is_ready(json_t *node);

/* Append what `kubectl describe` prints to @b. */
void kubelet_describe_pod(json_t *p, struct buf *b);
void kubelet_describe_node(json_t *n, struct buf *b);
