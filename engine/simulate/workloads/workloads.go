// Package workloads is what the kubelet and the controllers of Kubernetes do to objects on a healthy cluster: the
// status of Pods, Jobs, claims and workloads. It has no clock, and takes no time.
package workloads

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	podKind     = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	serviceKind = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
)

// The addresses of Pods, Services and load balancers; the last is of a range for documentation
// (RFC 5737).
const (
	podAddress      = "10.0.0.1"
	serviceAddress  = "10.96.0.1"
	balancerAddress = "192.0.2.1"
)

// Reports reports whether objects of a type get a status on a healthy cluster.
func Reports(of schema.GroupVersionKind) bool { return healthy[of] != nil }

// Status returns the status that an object gets next on a healthy cluster; nil if it has it, or its type gets none.
func Status(object *unstructured.Unstructured, now time.Time) map[string]any {
	if status := healthy[object.GroupVersionKind()]; status != nil {
		return status(object, now)
	}
	return nil
}

// healthy has the status that objects of a type get on a healthy cluster; nil if they have it.
var healthy = map[schema.GroupVersionKind]func(object *unstructured.Unstructured, now time.Time) map[string]any{
	podKind: func(pod *unstructured.Unstructured, now time.Time) map[string]any {
		if phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase"); phase != "" {
			return nil
		}
		return runningPod(pod, now)
	},
	serviceKind: func(service *unstructured.Unstructured, _ time.Time) map[string]any {
		kind, _, _ := unstructured.NestedString(service.Object, "spec", "type")
		if kind != string(corev1.ServiceTypeLoadBalancer) || service.Object["status"] != nil {
			return nil
		}
		return map[string]any{"loadBalancer": map[string]any{"ingress": []any{map[string]any{"ip": balancerAddress}}}}
	},
	{Version: "v1", Kind: "PersistentVolumeClaim"}: func(claim *unstructured.Unstructured, _ time.Time) map[string]any {
		if claim.Object["status"] != nil {
			return nil
		}
		return map[string]any{"phase": string(corev1.ClaimBound)}
	},
	{Group: "batch", Version: "v1", Kind: "Job"}: func(job *unstructured.Unstructured, now time.Time) map[string]any {
		if job.Object["status"] != nil {
			return nil
		}
		parallelism := count(job, "parallelism")
		return map[string]any{"startTime": now.Format(time.RFC3339), "active": parallelism, "ready": parallelism}
	},
	{Group: "apps", Version: "v1", Kind: "Deployment"}: rolledOut(func(n int64) map[string]any {
		return map[string]any{"replicas": n, "updatedReplicas": n, "readyReplicas": n, "availableReplicas": n,
			"conditions": []any{
				map[string]any{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
				map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
			}}
	}),
	{Group: "apps", Version: "v1", Kind: "ReplicaSet"}: rolledOut(func(n int64) map[string]any {
		return map[string]any{"replicas": n, "fullyLabeledReplicas": n, "readyReplicas": n, "availableReplicas": n}
	}),
	{Group: "apps", Version: "v1", Kind: "StatefulSet"}: rolledOut(func(n int64) map[string]any {
		return map[string]any{"replicas": n, "currentReplicas": n, "updatedReplicas": n, "readyReplicas": n,
			"availableReplicas": n}
	}),
	{Group: "apps", Version: "v1", Kind: "DaemonSet"}: rolledOut(func(int64) map[string]any { // on one node
		n := int64(1)
		return map[string]any{"desiredNumberScheduled": n, "currentNumberScheduled": n, "updatedNumberScheduled": n,
			"numberReady": n, "numberAvailable": n}
	}),
}

// rolledOut returns the behaviour of a controller that counts replicas for each generation.
func rolledOut(status func(replicas int64) map[string]any) func(*unstructured.Unstructured, time.Time) map[string]any {
	return func(object *unstructured.Unstructured, _ time.Time) map[string]any {
		observed, found, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		if found && observed == object.GetGeneration() {
			return nil
		}
		counts := status(count(object, "replicas"))
		counts["observedGeneration"] = object.GetGeneration()
		return counts
	}
}

// count returns a number of the spec whose default is 1.
func count(object *unstructured.Unstructured, name string) int64 {
	n, found, err := unstructured.NestedInt64(object.Object, "spec", name)
	if !found || err != nil {
		return 1
	}
	return n
}

func runningPod(pod *unstructured.Unstructured, now time.Time) map[string]any {
	at := now.Format(time.RFC3339)
	var conditions, containers []any
	for _, name := range []string{"PodScheduled", "Initialized", "ContainersReady", "Ready"} {
		conditions = append(conditions, map[string]any{"type": name, "status": "True", "lastTransitionTime": at})
	}
	all, _, _ := unstructured.NestedSlice(pod.Object, "spec", "containers")
	for _, container := range all {
		fields, _ := container.(map[string]any)
		containers = append(containers, map[string]any{
			"name": fields["name"], "image": fields["image"], "ready": true, "started": true, "restartCount": int64(0),
			"state": map[string]any{"running": map[string]any{"startedAt": at}},
		})
	}
	status := map[string]any{"phase": string(corev1.PodRunning), "startTime": at, "podIP": podAddress,
		"conditions": conditions}
	if len(containers) > 0 {
		status["containerStatuses"] = containers
	}
	return status
}

// GiveAddress gives a Service the address that the API server would, unless it needs none. It leaves other objects
// alone.
func GiveAddress(service *unstructured.Unstructured) {
	if service.GroupVersionKind() != serviceKind {
		return
	}
	kind, _, _ := unstructured.NestedString(service.Object, "spec", "type")
	if _, has, _ := unstructured.NestedString(service.Object, "spec", "clusterIP"); has ||
		kind == string(corev1.ServiceTypeExternalName) {
		return
	}
	// fails if spec is no struct, which nothing needs
	_ = unstructured.SetNestedField(service.Object, serviceAddress, "spec", "clusterIP")
}

// End returns the patch of a Pod or a Job that ends; nil for other types.
func End(object *unstructured.Unstructured, succeeded bool, now time.Time) map[string]any {
	at := now.Format(time.RFC3339)
	switch object.GroupVersionKind() {
	case podKind:
		phase := corev1.PodFailed
		if succeeded {
			phase = corev1.PodSucceeded
		}
		var conditions []any
		for _, name := range []string{"PodScheduled", "Initialized"} {
			conditions = append(conditions, map[string]any{"type": name, "status": "True", "lastTransitionTime": at})
		}
		for _, name := range []string{"ContainersReady", "Ready"} {
			conditions = append(conditions, map[string]any{"type": name, "status": "False", "lastTransitionTime": at})
		}
		return map[string]any{"status": map[string]any{"phase": string(phase), "conditions": conditions}}
	case schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}:
		condition := map[string]any{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded",
			"lastTransitionTime": at}
		status := map[string]any{"active": nil, "ready": int64(0), "failed": int64(1), "conditions": []any{condition}}
		if succeeded {
			condition["type"], condition["reason"] = "Complete", "CompletionsReached"
			delete(status, "failed")
			status["succeeded"], status["completionTime"] = count(object, "completions"), at
		}
		return map[string]any{"status": status}
	}
	return nil
}
