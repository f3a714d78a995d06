/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The forms of a report: Markdown and HTML. The report decides the contents, a form decides their
 * look. Texts come from the user and the catalogue, so a form escapes them.
 * Thread: any.
 */
#include "lib/report/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bar_kind { BAR_PLAIN, BAR_PLAN, BAR_BROKEN };

/* One of several amounts that are compared. */
struct page_bar {
	const char *label, *amount;
	double value; /* >= 0 */
	enum bar_kind kind;
};

/* A part of a GPU. .owner: a number for each workload; PAGE_IDLE: unallocated. */
#define PAGE_IDLE UINT32_MAX
struct page_part {
	const char *label;
	double share; /* of the GPU */
	uint32_t owner;
};

struct page_gpu {
	const struct page_part *parts;
	size_t n;
};

/* A key figure at the top of the report. */
struct page_tile {
	const char *label, *value;
};

struct page_form {
	void (*begin)(struct buf *b, const char *title);
	void (*heading)(struct buf *b, const char *text);
	void (*paragraph)(struct buf *b, const char *text);
	void (*tiles)(struct buf *b, const struct page_tile *tiles, size_t n);
	void (*bars)(struct buf *b, const struct page_bar *bars, size_t n);
	/* A kind of node and its GPUs. */
	void (*node)(struct buf *b, const char *title, const struct page_gpu *gpus, size_t n);
	void (*table)(struct buf *b, const struct table *t);
	void (*end)(struct buf *b);
};

/* The two forms. page_html is a whole document with its style sheet. */
extern const struct page_form page_markdown, page_html;

extern const char page_style[]; /* style.css */
extern const size_t page_style_len;
