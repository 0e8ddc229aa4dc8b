package inject

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fescue-dev/fescue/cue/kind/podrules"
)

// rules tells for which Pods podrules.ValidatePod is called: reading a Pod into Go types takes
// longer than all the rest, and most injections are valid in every Pod that needs has no
// objections to.
type rules struct {
	always bool
	// annotations are those in which a Pod can name a profile for an injected container.
	annotations []string
}

func rulesOf(part *corev1.Pod) rules {
	r := rules{always: podrules.DependsOnPod(part)}
	for _, containers := range [][]corev1.Container{part.Spec.InitContainers, part.Spec.Containers} {
		for _, c := range containers {
			r.annotations = append(r.annotations, corev1.SeccompContainerAnnotationKeyPrefix+c.Name,
				corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name)
		}
	}
	return r
}

// decides reports whether the injection may be invalid in a Pod that needs has no objections to.
func (r *rules) decides(pod value) bool {
	if r.always {
		return true
	}
	if annotations := pod.Member("metadata").Member("annotations"); annotations.Is('{') {
		for _, name := range r.annotations {
			if annotations.Member(name).IsSet() {
				return true
			}
		}
	}
	for _, list := range containerLists {
		for _, c := range pod.Member("spec").Member(list).Items {
			if c.Member("securityContext").Member("windowsOptions").Member("hostProcess").IsSet() {
				return true // then all containers must be host processes
			}
		}
	}
	return false
}

// checkRules rejects an injection that makes a valid Pod invalid. A Pod that was invalid before is
// not its fault. claims are the names of volumes that a StatefulSet adds.
func checkRules(before, after []byte, claims []string) *rejection {
	errs := violations(after, claims)
	if len(errs) == 0 || len(violations(before, claims)) > 0 {
		return nil
	}
	detail := errs[0].Detail
	if detail == "" {
		detail = errs[0].Type.String()
	}
	return (&rejection{reason: Invalid, detail: detail}).in(errs[0].Field)
}

// violations validates the text of a Pod. What cannot be read is left to the API server.
func violations(text []byte, claims []string) field.ErrorList {
	var pod corev1.Pod
	if json.Unmarshal(text, &pod) != nil {
		return nil
	}
	for _, name := range claims {
		pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		claim := corev1.Volume{Name: name}
		claim.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}
		pod.Spec.Volumes = append(pod.Spec.Volumes, claim)
	}
	return podrules.ValidatePod(&pod)
}
