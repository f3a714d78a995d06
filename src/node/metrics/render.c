/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/dcgm/dcgm.h"
#include "node/metrics/own/own.h"

static int write_own(struct metrics_writer *w, struct error *err)
{
	CLEANUP(metrics_own_fini) struct metrics_own own = { .w = w };

	if (metrics_own_init(&own, w, err) < 0)
		return -1;
	metrics_own_node(&own);
	metrics_own_resources(&own);
	metrics_own_gpus(&own);
	metrics_own_devices(&own);
	metrics_own_containers(&own);
	metrics_own_slices(&own);
	metrics_own_opencost(&own);
	metrics_own_agent(&own);
	metrics_own_web(&own);
	return 0;
}

int metrics_render(struct buf *out, const struct metrics_request *rq, struct error *err)
{
	struct metrics_writer w = {
		.rq = rq,
		.v = rq->view,
		.o = rq->options,
		.out = out,
		.labels = BUF_INIT(METRICS_LABELS_MAX),
	};
	bool complete;
	int r = dcgm_write(&w, err);

	if (r >= 0)
		r = write_own(&w, err);
	if (rq->format == METRICS_OPENMETRICS)
		buf_puts(out, "# EOF\n");
	complete = buf_ok(out) && buf_ok(&w.labels);
	buf_fini(&w.labels);
	if (r < 0)
		return r;
	if (!complete)
		return error_set(err, ERR_LIMIT,
			"metrics: the text is longer than %zu bytes, or there is no memory for it",
			out->max);
	return 0;
}
