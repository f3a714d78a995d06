/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to src/node/view: the files of this folder, as embed-text.py wrote them. */
#include <stddef.h>

/* The texts, and their lengths in bytes. */
extern const char page_bar_js[], page_chart_js[], page_dom_js[], page_format_js[],
	page_gpu_js[], page_index_html[], page_node_js[], page_page_js[], page_style_css[];
extern const size_t page_bar_js_len, page_chart_js_len, page_dom_js_len, page_format_js_len,
	page_gpu_js_len, page_index_html_len, page_node_js_len, page_page_js_len,
	page_style_css_len;
