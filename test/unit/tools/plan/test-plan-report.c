/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/buf.h"
#include "tools/cli/plan/view/view.h"
#include "unit/tools/plan/plan-world.h"

#include <string.h>

static const char prices[] =
	"version: gpuslice/prices/v1\n"
	"stamp: \"2026-07-20\"\n"
	"types:\n"
	"  p3.2xlarge: {gpu: V100-SXM2-16GB, gpus: 1, gpuMemoryMiB: 16384, vcpus: 8, memoryMiB: 62464,\n"
	"    pricePerHour: {r: 3.06}}\n";

struct world {
	struct plan_world plan;
	struct buf text;
};

static void world_fini(struct world *w)
{
	plan_world_fini(&w->plan);
	buf_fini(&w->text);
}

static void world_init(struct world *w, const char *text)
{
	struct error err = ERROR_INIT;

	*w = (struct world){ .text = BUF_INIT(1U << 20) };
	assert_ok(plan_world_init(&w->plan, prices, text, &err), &err);
}

#define HOSTILE                                                                                 \
	"version: gpuslice/plan/v1\npolicy: {regions: [r], max_slowdown: any}\n"                \
	"workloads: [{name: \"<b>&`|*\\\"\", replicas: 2, gpu_ref: V100-SXM2-16GB, busy: 0.1, " \
	"mem_peak_mib: 3000}, {name: big, gpu_ref: V100-SXM2-16GB, mem_peak_mib: 90000}]\n"

static bool has_report_text(const struct world *w, const char *text)
{
	return strstr(buf_str(&w->text), text) != NULL;
}

static void html__escapes_names(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w, HOSTILE);
	plan_report(&w.text, w.plan.a, &page_html, "today");
	assert_true(buf_ok(&w.text));
	assert_true(has_report_text(&w, "&lt;b&gt;&amp;`|*&quot;"));
	assert_false(has_report_text(&w, "<b>&"));
	assert_true(has_report_text(&w, "no place for 1 of &#39;big&#39;"));
	assert_true(has_report_text(&w, "</html>"));
	assert_false(has_report_text(&w, "<script"));
}

static void markdown__escapes_names(void **state)
{
	CLEANUP(world_fini) struct world w;

	(void)state;
	world_init(&w, HOSTILE);
	plan_report(&w.text, w.plan.a, &page_markdown, "today");
	assert_true(has_report_text(&w, "\\<b\\>\\&\\`\\|\\*"));
	assert_false(has_report_text(&w, "| <b>"));
	/* Inside of a picture only what would end it. */
	assert_true(has_report_text(&w, "GPU 0   |<b>& |*"));
}

/* Every format has the same amounts. */
static void forms__agree(void **state)
{
	static const char *const said[] = { "3.06", "2,233.80", "p3.2xlarge" };
	CLEANUP(world_fini) struct world w;
	const struct page_form *const forms[] = { &page_html, &page_markdown };

	(void)state;
	world_init(&w,
		"version: gpuslice/plan/v1\npolicy: {regions: [r]}\n"
		"workloads: [{name: s, replicas: 3, gpu_ref: V100-SXM2-16GB, busy: 0.1, mem_peak_mib: 3000}]\n");
	plan_text(&w.text, w.plan.a);
	for (size_t i = 0; i < ARRAY_LEN(said); i++)
		assert_true(has_report_text(&w, said[i]));
	for (size_t f = 0; f < ARRAY_LEN(forms); f++) {
		buf_clear(&w.text);
		plan_report(&w.text, w.plan.a, forms[f], "today");
		for (size_t i = 0; i < ARRAY_LEN(said); i++)
			assert_true(has_report_text(&w, said[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(html__escapes_names),
		cmocka_unit_test(markdown__escapes_names),
		cmocka_unit_test(forms__agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
