package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// dividedAts measures what each of several replicas takes to cache its share of the same objects.
func dividedAts(ctx context.Context, e *environment) error {
	if err := e.finishAts(ctx, e.scaled(5000, 20)); err != nil {
		return err
	}
	for _, replicas := range []int{1, 2, 4} {
		if err := e.shared(ctx, replicas); err != nil {
			return fmt.Errorf("%d replicas: %w", replicas, err)
		}
	}
	return nil
}

// shared starts replicas that divide the objects, in the place of the operator that runs, and adds a row for what
// each of them takes. At the end, the first of them runs alone.
func (e *environment) shared(ctx context.Context, replicas int) (err error) {
	if err := e.process.stop(); err != nil {
		return err
	}
	args := e.args
	e.args = append(slices.Clone(args), fmt.Sprintf("--shards=%d", replicas), "--leader-elect",
		"--leader-elect-resource-namespace="+operatorNamespace)
	defer func() { e.args = args }()
	var processes []*process
	defer func() {
		for _, p := range processes[min(1, len(processes)):] {
			err = errors.Join(err, p.stop())
		}
	}()
	for range replicas {
		if err := e.startOperator(false); err != nil {
			return err
		}
		processes = append(processes, e.process)
	}
	defer func() { e.process = processes[0] }()
	if err := e.awaitShares(ctx, processes); err != nil {
		return err
	}
	sums := make(map[string]float64)
	const liveHeap = "live heap, MiB"
	for i, p := range processes {
		if _, err := p.idleAfter(ctx); err != nil {
			return err
		}
		e.process = p
		heap, errHeap := e.liveHeap(ctx, fmt.Sprintf("heap of replica %d of %d", i+1, replicas))
		own, errOwn := p.own()
		cpu, errCPU := p.cpu()
		if err := errors.Join(errHeap, errOwn, errCPU); err != nil {
			return err
		}
		sums[liveHeap] += heap
		sums[ownMemory] += own
		sums[operatorCPU] += cpu
	}
	r := e.addRow(fmt.Sprintf("each of %d replicas that share them, after its start", replicas))
	for _, what := range []string{ownMemory, operatorCPU} {
		r.Values[what] = sums[what] / float64(replicas)
	}
	r.add(liveHeap, sums[liveHeap]/float64(replicas))
	return nil
}

// awaitShares waits until each process has one of as many shards.
func (e *environment) awaitShares(ctx context.Context, processes []*process) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute,
		errors.New("the shards were not taken within two minutes"))
	defer cancel()
	return until(ctx, func() (bool, error) {
		for _, p := range processes {
			owned, err := p.metric(ctx, "fescue_shards_owned")
			if err != nil || owned != 1 {
				return false, p.hasEnded()
			}
		}
		return true, nil
	})
}
