/* SPDX-License-Identifier: Apache-2.0 */

/* Memory nodes of graphs against a limit: cuda/work/graph.c. */
#include "unit/container/cuda/fake-driver.h"
#include "unit/container/cuda/fake-gate.h"

#include "container/cuda/work/work.h"
#include "container/cuda/memory/pool-reservation.h"

static CUgraphExec instantiate_test_graph(CUgraph graph)
{
	CUgraphExec exec = NULL;

	assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
	return exec;
}

/* All memory is charged, except the code of graphs, which the fake driver does not have. */
static void assert_exact(void)
{
	link_compare(0);
	assert_int_equal(fake.over, 0);
	assert_int_equal(fake.spoiled, 0);
	assert_int_equal(fake_used(), fake_physical());
	assert_int_equal(fake_page.gpus[0].seen, fake_physical());
	assert_int_equal(fake_page.gpus[0].begun, fake_page.gpus[0].done);
}

static int setup(void **state)
{
	(void)state;
	fake_new(256 * MIB);
	return 0;
}

static int empty(void **state)
{
	(void)state;
	assert_int_equal(cuDeviceGraphMemTrim(0), 0);
	assert_exact();
	assert_int_equal(fake_used(), 0);
	/* A refused launch has left the gate too. */
	assert_int_equal(fake_gate_page.gpus[0].begun, fake_gate_page.gpus[0].ended);
	return 0;
}

/* First of all: before anything has made a memory node. */
static void launch__without_memory_nodes_requests_nothing(void **state)
{
	CUgraph g = fake_graph();
	CUgraphExec e = instantiate_test_graph(g);

	(void)state;
	fake.calls = 0;
	for (int i = 0; i < 100; i++)
		assert_int_equal(cuGraphLaunch(e, fake_stream(1)), 0);
	assert_int_equal(fake.calls, 100);
	assert_int_equal(cuGraphExecDestroy(e), 0);
}

/* Each launch passes the gate once, whether memory is charged or not. An upload is no launch. */
static void launch__goes_through_the_gate(void **state)
{
	struct turn_gpu_page *p = &fake_gate_page.gpus[0];
	CUgraph g = fake_graph(), with_memory = fake_graph();
	CUgraphExec e, m;

	(void)state;
	graph_expect_memory();
	fake_node_alloc(with_memory, 20 * MIB);
	e = instantiate_test_graph(g);
	m = instantiate_test_graph(with_memory);
	for (unsigned int slow = 0; slow < 2; slow++) {
		fake_gate_new(!slow);
		assert_int_equal(cuGraphLaunch(m, fake_stream(1)), 0);
		assert_ptr_equal(fake_gate.stream, slow ? fake_stream(1) : NULL);
		assert_int_equal(fake_gate.flags, 0);
		(void)cuGraphLaunch_ptsz(e, fake_stream(2)); /* this driver has none */
		assert_int_equal(fake_gate.flags, slow ? GATE_OWN : 0);
		assert_ptr_equal(fake_gate.stream, slow ? fake_stream(2) : NULL);
		assert_int_equal(p->begun, 2);
		assert_int_equal(p->ended, 2);
		assert_int_equal(p->copies, 0);
		assert_int_equal(cuGraphUpload(m, fake_stream(1)), 0);
		assert_int_equal(fake_gate.flags, 0);
		(void)cuGraphUpload_ptsz(e, fake_stream(1));
		assert_int_equal(fake_gate.flags, slow ? GATE_OWN : 0);
		assert_int_equal(p->ended, 4);
		assert_int_equal(p->copies, 2);
		assert_int_equal(fake_gate.slow, slow * 4);
	}
	assert_int_equal(cuGraphExecDestroy(e), 0);
	assert_int_equal(cuGraphExecDestroy(m), 0);
	fake_gate_new(false);
}

static void graph_need__is_no_less_than_measured(void **state)
{
	static const struct {
		uint64_t mib[10];
		uint64_t took, bound;
	} rows[] = {
		{ { 1 }, 32, 32 },
		{ { 40 }, 64, 64 },
		{ { 64 }, 64, 64 },
		{ { 65 }, 96, 96 },
		{ { 40, 40 }, 128, 128 },
		{ { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, 32, 32 },
		{ { 1000 }, 1024, 1024 },
		{ { 20, 20, 20 }, 96, 128 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct graph_need n = { 0 };

		for (int k = 0; k < 10 && rows[i].mib[k]; k++)
			graph_need_add(&n, rows[i].mib[k] * MIB);
		assert_int_equal(graph_need_bound(&n), rows[i].bound * MIB);
		assert_true(rows[i].took <= rows[i].bound);
	}
	assert_true(
		graph_need_bound(&(struct graph_need){ UINT64_MAX, UINT64_MAX }) == UINT64_MAX);
	assert_int_equal(graph_need_bound(&(struct graph_need){ 0, 0 }), 0);
	assert_true(graph_code_bound(10000) >= 20 * MIB);
	assert_true(graph_code_bound(UINT64_MAX) == UINT64_MAX);
}

static void launch__charges_the_memory_of_the_graph(void **state)
{
	CUdeviceptr p;
	CUgraphExec e;

	(void)state;
	fake_capture(fake_stream(1), 0);
	assert_int_equal(cuMemAllocAsync(&p, 40 * MIB, fake_stream(1)), 0);
	e = instantiate_test_graph(fake_capture_end(fake_stream(1)));
	link_compare(0);
	assert_int_equal(fake_used(), 0);
	assert_int_equal(cuGraphLaunch(e, fake_stream(1)), 0);
	assert_int_equal(fake_used(), 64 * MIB);
	assert_exact();
	assert_int_equal(cuGraphExecDestroy(e), 0);
}

static void launch__again_charges_nothing(void **state)
{
	CUgraph g = fake_graph();
	CUgraphExec e;

	(void)state;
	graph_expect_memory();
	fake_node_alloc(g, 192 * MIB);
	e = instantiate_test_graph(g);
	assert_int_equal(cuGraphLaunch(e, fake_stream(1)), 0);
	fake.trims = 0;
	for (int i = 0; i < 10; i++)
		assert_int_equal(cuGraphLaunch(e, fake_stream(1)), 0);
	assert_int_equal(fake.trims, 0);
	/* In another stream the graph may need memory of its own: the library trims, and allocates again. */
	assert_int_equal(cuGraphLaunch(e, fake_stream(2)), 0);
	assert_true(fake.trims > 0);
	assert_exact();
	/* After a trim no memory is left. */
	assert_int_equal(cuDeviceGraphMemTrim(0), 0);
	assert_int_equal(fake_used(), 0);
	assert_int_equal(cuGraphLaunch(e, fake_stream(2)), 0);
	assert_int_equal(fake_used(), 192 * MIB);
	assert_exact();
	assert_int_equal(cuGraphExecDestroy(e), 0);
}

static void launch__is_refused_at_the_limit(void **state)
{
	CUgraph g = fake_graph(), child = fake_graph();
	CUgraphExec e;
	CUdeviceptr p;

	(void)state;
	graph_expect_memory();
	fake_node_alloc(child, 100 * MIB);
	fake_node_child(g, child);
	e = instantiate_test_graph(g);
	link_compare(0);
	assert_int_equal(cuMemAllocAsync(&p, 160 * MIB, fake_stream(1)), 0);
	assert_int_equal(cuGraphLaunch(e, fake_stream(1)), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuGraphUpload(e, fake_stream(1)), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemFreeAsync(p, fake_stream(1)), 0);
	/* The memory of the pool comes to the graph. */
	assert_int_equal(cuGraphUpload(e, fake_stream(1)), 0);
	assert_int_equal(fake_used(), 128 * MIB);
	assert_exact();
	assert_int_equal(cuGraphExecDestroy(e), 0);
}

static void launch__into_a_capture_charges_nothing(void **state)
{
	CUgraph g = fake_graph();
	CUgraphExec e;

	(void)state;
	graph_expect_memory();
	fake_node_alloc(g, 512 * MIB);
	e = instantiate_test_graph(g);
	link_compare(0);
	fake_capture(fake_stream(1), 0);
	assert_int_equal(cuGraphLaunch(e, fake_stream(1)), 0);
	assert_int_equal(fake_used(), 0);
	fake_capture_end(fake_stream(1));
	assert_int_equal(cuGraphExecDestroy(e), 0);
}

static void instantiate__with_upload_charges_at_once(void **state)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = { .flags = 2 };
	CUDA_MEM_ALLOC_NODE_PARAMS node = { .bytesize = 40 * MIB };
	CUgraph g = fake_graph();
	CUgraphExec e;

	(void)state;
	assert_int_equal(cuGraphAddMemAllocNode(NULL, g, NULL, 0, &node), 0);
	assert_int_equal(cuGraphInstantiateWithParams(&e, g, &params), 0);
	link_compare(0);
	assert_int_equal(fake_used(), 64 * MIB);
	assert_exact();
	assert_int_equal(cuGraphExecDestroy(e), 0);
	fake_node_alloc(g, 512 * MIB);
	assert_int_equal(cuGraphInstantiateWithParams(&e, g, &params),
		CUDA_ERROR_OUT_OF_MEMORY);
}

static void limit__trims_the_memory_of_graphs(void **state)
{
	CUgraph g = fake_graph();
	CUgraphExec e;
	CUdeviceptr p;

	(void)state;
	graph_expect_memory();
	fake_node_alloc(g, 192 * MIB);
	e = instantiate_test_graph(g);
	assert_int_equal(cuGraphLaunch(e, fake_stream(1)), 0);
	link_compare(0);
	assert_int_equal(cuMemAllocAsync(&p, 128 * MIB, fake_stream(1)), 0);
	assert_int_equal(fake_used(), 128 * MIB);
	assert_exact();
	assert_int_equal(cuGraphLaunch(e, fake_stream(1)), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemFreeAsync(p, fake_stream(1)), 0);
	assert_int_equal(cuCtxSynchronize(), 0);
	assert_int_equal(cuGraphExecDestroy(e), 0);
}

static void others_trim(void)
{
	pool_reservations_trim(0);
}

static void launch__again_is_not_trimmed_meanwhile(void **state)
{
	CUgraph g = fake_graph();
	CUgraphExec e;

	(void)state;
	graph_expect_memory();
	fake_node_alloc(g, 192 * MIB);
	e = instantiate_test_graph(g);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(cuGraphLaunch(e, fake_stream(1)), 0);
		fake.meanwhile = others_trim;
	}
	fake.meanwhile = NULL;
	assert_exact();
	assert_int_equal(fake_used(), 192 * MIB);
	assert_int_equal(cuGraphExecDestroy(e), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, empty)
		T(launch__without_memory_nodes_requests_nothing),
		T(graph_need__is_no_less_than_measured),
		T(launch__goes_through_the_gate),
		T(launch__charges_the_memory_of_the_graph),
		T(launch__again_charges_nothing),
		T(launch__is_refused_at_the_limit),
		T(launch__into_a_capture_charges_nothing),
		T(instantiate__with_upload_charges_at_once),
		T(launch__again_is_not_trimmed_meanwhile),
		T(limit__trims_the_memory_of_graphs),
#undef T
	};

	return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
