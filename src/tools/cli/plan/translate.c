/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/plan/translate.h"

#include "lib/base/buf.h"
#include "tools/cli/output.h"
#include "tools/plan/input/input.h"
#include "tools/plan/make/translate.h"

#define TEXT_MAX (64U << 20)

int plan_translate(const struct strv *files, struct error *err)
{
	CLEANUP(plan_input_freep) struct plan_input *in = NULL;
	CLEANUP(buf_fini) struct buf objects = BUF_INIT(TEXT_MAX), all = BUF_INIT(TEXT_MAX);
	size_t n = 0;

	if (plan_input_new(&in, err) < 0)
		return -1;
	for (size_t i = 0; i < files->n; i++) {
		CLEANUP(buf_fini) struct buf text = BUF_INIT(PLAN_FILE_MAX);
		const char *name;

		if (plan_input_text(files->v[i], &text, &name, err) < 0 ||
			plan_input_parse(in, name, buf_str(&text), text.len, err) < 0 ||
			make_translation(&objects, name, buf_str(&text), text.len, &n, err) < 0)
			return -1;
	}
	if (!n)
		return error_set(err, ERR_NOT_FOUND,
			"--translate: expected Karpenter's Provisioners or AWSNodeTemplates, found none");
	for (size_t i = 0; i < in->n_notes; i++)
		buf_printf(&all, "# %s:%u: %s\n", in->notes[i].file, in->notes[i].line,
			in->notes[i].text);
	buf_puts(&all,
		"# Put your cluster's name for CLUSTER_NAME, and a version for latest.\n");
	buf_puts(&all, buf_str(&objects));
	if (!buf_ok(&all) || !buf_ok(&objects))
		return error_nomem(err);
	return output_write(NULL, buf_str(&all), all.len, err);
}
