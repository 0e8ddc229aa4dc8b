package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// PodSecurity prevents objects from injecting what the Pods of their namespace may not have.
type PodSecurity struct {
	labels          LabelsOf
	allowPrivileged bool
	evaluator       policy.Evaluator
}

// LabelsOf returns the labels of a namespace without asking the API server. It fails if they are
// not known.
type LabelsOf func(ctx context.Context, namespace string) (map[string]string, error)

// NewPodSecurity wires the check. allowPrivileged lets objects inject privileged containers,
// hostPath volumes and the host's namespaces where no Pod Security level forbids it.
func NewPodSecurity(labels LabelsOf, allowPrivileged bool) (*PodSecurity, error) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, fmt.Errorf("pod security checks: %w", err)
	}
	return &PodSecurity{labels, allowPrivileged, evaluator}, nil
}

// check returns an Invalid error with what the object may not inject, or another error if the
// level of its namespace is not known.
func (p *PodSecurity) check(ctx context.Context, s *submission) error {
	if p == nil || !s.kind.Injects() {
		return nil
	}
	add, err := s.object.evaluate().Add()
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("what %s %q injects: %w", s.kind.GroupVersionKind.Kind, s.name,
			err))
	}
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(add, &pod); err != nil {
		return forbidden(s, "does not inject a part of a Pod: "+err.Error())
	}
	if !p.allowPrivileged {
		if what := privileged(&pod.Spec); what != "" {
			return forbidden(s, "must not inject "+what+"; Fescue's flag --allow-privileged-injection allows it")
		}
	}
	level, errs, err := p.enforced(ctx, s.request.Namespace)
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		return forbidden(s, fmt.Sprintf("the namespace %q has no valid Pod Security level: %v", s.request.Namespace,
			errs.ToAggregate()))
	}
	if violation := p.violation(level, &pod); violation != "" {
		return forbidden(s, violation)
	}
	return nil
}

// enforced returns the level that a namespace enforces. If the labels are invalid, it is the one
// that the API server then uses.
func (p *PodSecurity) enforced(ctx context.Context, namespace string) (api.LevelVersion, field.ErrorList, error) {
	level := api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
	labels, err := p.labels(ctx, namespace)
	if err != nil {
		return level, nil, fmt.Errorf("pod security of the namespace %q: %w", namespace, err)
	}
	if labels[api.EnforceLevelLabel] == "" && labels[api.EnforceVersionLabel] == "" {
		return level, nil, nil
	}
	evaluated, errs := api.PolicyToEvaluate(labels, api.Policy{Enforce: level})
	return evaluated.Enforce, errs, nil
}

// violation describes how the part of a Pod that an object injects violates a level, or returns
// "". It changes the part.
func (p *PodSecurity) violation(level api.LevelVersion, part *corev1.Pod) string {
	inheritFromPod(&part.Spec)
	for i, volume := range part.Spec.Volumes {
		if volume.VolumeSource == (corev1.VolumeSource{}) { // as the API server defaults it
			part.Spec.Volumes[i].EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
	}
	result := policy.AggregateCheckResults(p.evaluator.EvaluatePod(level, &part.ObjectMeta, &part.Spec))
	if result.Allowed {
		return ""
	}
	return fmt.Sprintf("what it injects violates PodSecurity %q: %s", level.String(), result.ForbiddenDetail())
}

// forbidden returns an Invalid error for the whole spec: only the kind knows which of its fields
// becomes which part of the Pod.
func forbidden(s *submission, detail string) error {
	return apierrors.NewInvalid(s.kind.GroupVersionKind.GroupKind(), s.name,
		field.ErrorList{field.Forbidden(field.NewPath("spec"), detail)})
}

// inheritFromPod sets what every Pod of the level restricted sets itself, and what containers
// inherit that do not set it.
func inheritFromPod(spec *corev1.PodSpec) {
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	if spec.SecurityContext.RunAsNonRoot == nil {
		spec.SecurityContext.RunAsNonRoot = new(true)
	}
	if spec.SecurityContext.SeccompProfile == nil {
		spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
}

// privileged names what would give a container control of the node, or returns "".
func privileged(spec *corev1.PodSpec) string {
	switch {
	case spec.HostNetwork, spec.HostPID, spec.HostIPC:
		return "the host's namespaces"
	case isHostProcess(spec.SecurityContext):
		return "a host process"
	}
	for _, volume := range spec.Volumes {
		if volume.HostPath != nil {
			return fmt.Sprintf("the hostPath volume %q", volume.Name)
		}
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for _, container := range containers {
			c := container.SecurityContext
			switch {
			case c == nil:
			case c.Privileged != nil && *c.Privileged:
				return fmt.Sprintf("the privileged container %q", container.Name)
			case c.WindowsOptions != nil && c.WindowsOptions.HostProcess != nil && *c.WindowsOptions.HostProcess:
				return fmt.Sprintf("the host process container %q", container.Name)
			}
		}
	}
	return ""
}

// isHostProcess is for Pods; containers have another type for the same field.
func isHostProcess(c *corev1.PodSecurityContext) bool {
	return c != nil && c.WindowsOptions != nil && c.WindowsOptions.HostProcess != nil && *c.WindowsOptions.HostProcess
}
