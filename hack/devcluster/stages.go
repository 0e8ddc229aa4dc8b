package main

import (
	_ "embed"
	"strings"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	heartbeat "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

//go:embed stages.yaml
var podEndStages string

// kwokStages returns how kwok simulates nodes and Pods: its own stages for a node that is always
// ready and for Pods that start at once, and those of stages.yaml for how Pods end. They replace
// its own pod-complete, which ends only the Pods of Jobs.
func kwokStages() string {
	return strings.Join([]string{
		nodefast.DefaultNodeInit,
		heartbeat.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady,
		podfast.DefaultPodDelete,
		podEndStages,
	}, "\n---\n")
}
