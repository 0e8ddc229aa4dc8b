package admission

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/fescue-dev/fescue/cue/kind"
)

// Injection says how objects of a kind get into Pods.
type Injection struct {
	// Annotation is the one by which a Pod asks for objects.
	Annotation string
	// BySelector says that an object may also select Pods, which need no annotation.
	BySelector bool
	// Add is what a valid, defaulted object adds to a Pod: a part of one, with metadata and
	// spec as far as it goes.
	Add func(object map[string]any) (map[string]any, error)
}

// Injections are those kinds that inject.
type Injections map[schema.GroupKind]Injection

// PodSecurity keeps objects from injecting what the Pods of their namespace may not have.
type PodSecurity struct {
	injections      Injections
	labels          LabelsOf
	allowPrivileged bool
	evaluator       policy.Evaluator
}

// LabelsOf looks the labels of a namespace up, without asking the API server. It is an error if
// they are not known.
type LabelsOf func(ctx context.Context, namespace string) (map[string]string, error)

// NewPodSecurity wires the check. allowPrivileged lets objects inject
// privileged containers, hostPath volumes and the host's namespaces where no Pod
// Security level forbids it.
func NewPodSecurity(injections Injections, labels LabelsOf, allowPrivileged bool) (*PodSecurity, error) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, fmt.Errorf("pod security checks: %w", err)
	}
	return &PodSecurity{injections, labels, allowPrivileged, evaluator}, nil
}

// check returns an Invalid that says what an object may not inject, or another error if it is
// not known what its namespace enforces.
func (p *PodSecurity) check(ctx context.Context, s *submission) error {
	if p == nil {
		return nil
	}
	gk := s.kind.GroupVersionKind.GroupKind()
	injection, injects := p.injections[gk]
	if !injects || injection.Add == nil {
		return nil
	}
	defaulted, _ := s.kind.DefaultAndValidateStored(kind.WithName(s.object))
	add, err := injection.Add(defaulted)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("what %s %q injects: %w", gk.Kind, s.name(), err))
	}
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(add, &pod); err != nil {
		return refusedSpec(s, "injects no part of a Pod: "+err.Error())
	}
	if !p.allowPrivileged {
		if what := privileged(&pod.Spec); what != "" {
			return refusedSpec(s, "must not inject "+what+"; Fescue's flag --allow-privileged-injection allows it")
		}
	}
	level, errs, err := p.enforced(ctx, s.request.Namespace)
	if err != nil {
		return err
	}
	if len(errs) > 0 {
		return refusedSpec(s, fmt.Sprintf("the namespace %q has no valid Pod Security level: %v", s.request.Namespace, errs.ToAggregate()))
	}
	if violation := p.violation(level, &pod); violation != "" {
		return refusedSpec(s, violation)
	}
	return nil
}

// enforced is the level that a namespace enforces. With invalid labels, it is the one that the
// API server then takes.
func (p *PodSecurity) enforced(ctx context.Context, namespace string) (api.LevelVersion, field.ErrorList, error) {
	level := api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()}
	labels, err := p.labels(ctx, namespace)
	if err != nil {
		return level, nil, fmt.Errorf("pod security of the namespace %q: %w", namespace, err)
	}
	if labels[api.EnforceLevelLabel] == "" && labels[api.EnforceVersionLabel] == "" {
		return level, nil, nil
	}
	said, errs := api.PolicyToEvaluate(labels, api.Policy{Enforce: level})
	return said.Enforce, errs, nil
}

// violation says how the part of a Pod that an object injects exceeds a level; it is empty if it
// does not. The part is changed.
func (p *PodSecurity) violation(level api.LevelVersion, part *corev1.Pod) string {
	inheritFromPod(&part.Spec)
	result := policy.AggregateCheckResults(p.evaluator.EvaluatePod(level, &part.ObjectMeta, &part.Spec))
	if result.Allowed {
		return ""
	}
	return fmt.Sprintf("what it injects violates PodSecurity %q: %s", level.String(), result.ForbiddenDetail())
}

// refusedSpec is an Invalid for the whole spec: which part of it makes which part of the
// Pod only the kind knows.
func refusedSpec(s *submission, detail string) error {
	return apierrors.NewInvalid(s.kind.GroupVersionKind.GroupKind(), s.name(), field.ErrorList{field.Forbidden(field.NewPath("spec"), detail)})
}

// inheritFromPod gives the part of a Pod what a Pod of the level restricted has itself:
// containers that say nothing of it take it over.
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

// privileged names what gives a container the node; it is empty if nothing does.
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

// isHostProcess is for Pods; containers say the same in a type of their own.
func isHostProcess(c *corev1.PodSecurityContext) bool {
	return c != nil && c.WindowsOptions != nil && c.WindowsOptions.HostProcess != nil && *c.WindowsOptions.HostProcess
}
