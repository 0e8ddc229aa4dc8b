package types

import (
	"maps"
	"slices"
	"strings"
)

// ports are the fields that are port numbers, with the lowest. OpenAPI does not tell; the source is
// pkg/apis/core/validation and pkg/apis/networking/validation of Kubernetes.
var ports = map[string]map[string]float64{
	"io.k8s.api.core.v1.ContainerPort":            {"containerPort": 1, "hostPort": 0},
	"io.k8s.api.core.v1.ServicePort":              {"port": 1, "targetPort": 1, "nodePort": 0},
	"io.k8s.api.core.v1.HTTPGetAction":            {"port": 1},
	"io.k8s.api.core.v1.TCPSocketAction":          {"port": 1},
	"io.k8s.api.core.v1.GRPCAction":               {"port": 1},
	"io.k8s.api.core.v1.EndpointPort":             {"port": 1},
	"io.k8s.api.networking.v1.ServiceBackendPort": {"number": 0},
}

const highestPort = 65535

// restartPolicies are those of the Pods of workloads, by the definition of the workload's spec. The
// source is the validation of Pod templates in pkg/apis/apps/validation and pkg/apis/batch/validation
// of Kubernetes: a Job states its policy, because the default, Always, is not allowed.
var restartPolicies = map[string][]string{
	"io.k8s.api.batch.v1.JobSpec":                  {"Never", "OnFailure"},
	"io.k8s.api.apps.v1.DeploymentSpec":            {"Always"},
	"io.k8s.api.apps.v1.StatefulSetSpec":           {"Always"},
	"io.k8s.api.apps.v1.DaemonSetSpec":             {"Always"},
	"io.k8s.api.apps.v1.ReplicaSetSpec":            {"Always"},
	"io.k8s.api.core.v1.ReplicationControllerSpec": {"Always"},
}

// refine adds rules that OpenAPI does not have to a definition.
func (r *reader) refine(name string, t *Type) {
	for field, lowest := range ports[name] {
		if known := t.Fields[field]; known != nil {
			highest := float64(highestPort)
			port := *known
			port.Minimum, port.Maximum = &lowest, &highest
			t.Fields[field] = &port
		}
	}
	allowed := restartPolicies[name]
	template := t.Fields["template"]
	if allowed == nil || template == nil || template.Fields["spec"] == nil {
		return
	}
	policy := &Type{Values: String, Enum: allowed}
	spec := template.Fields["spec"].with("restartPolicy", policy)
	if !slices.Contains(allowed, "Always") {
		spec.Required = append(slices.Clip(spec.Required), "restartPolicy")
	}
	t.Fields["template"] = template.with("spec", spec)
}

// with returns a copy of a type with another type of a field.
func (t *Type) with(name string, field *Type) *Type {
	changed := *t
	changed.Fields = maps.Clone(t.Fields)
	changed.Fields[name] = field
	return &changed
}

// Choices ends a message on a missing field with the values that it may have; "" if they are not
// known.
func (t *Type) Choices() string {
	if t == nil || len(t.Enum) == 0 {
		return ""
	}
	return ": write " + strings.Join(t.Enum, " or ")
}
