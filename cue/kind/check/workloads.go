package check

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
)

// The rules below are those of pkg/apis/batch/validation and pkg/apis/apps/validation of Kubernetes.

// checkWorkload checks the spec of a type that makes Pods.
func checkWorkload(ofKind string, spec *infer.Structure, path string) {
	switch ofKind {
	case "CronJob":
		mustParse(mistake.InvalidTime, spec, "schedule", path, func(text string) error {
			_, err := kind.ParseSchedule(text, "")
			return err
		})
		mustParse(mistake.InvalidTime, spec, "timeZone", path, func(text string) error {
			_, err := kind.ParseSchedule("@daily", text)
			return err
		})
		checkJob(spec.In("jobTemplate", "spec"), path+".jobTemplate.spec")
	case "DaemonSet", "Deployment", "ReplicaSet":
		checkDeadline(spec, path)
	case "StatefulSet":
		claims, _ := spec.Items("volumeClaimTemplates")
		for i, claim := range claims {
			checkClaim(claim.In("spec"), fmt.Sprintf("%s.volumeClaimTemplates[%d].spec", path, i))
		}
		notWith(spec.In("updateStrategy"), "OnDelete", "rollingUpdate", path+".updateStrategy")
		checkDeadline(spec, path)
	case "Job":
		checkSelector(spec, path)
		checkJob(spec, path)
	}
}

// checkSelector checks that a Job has a selector if, and only if, it says so.
func checkSelector(job *infer.Structure, path string) {
	switch {
	case job.Literal("manualSelector") == true:
		requires(job, "manualSelector", "selector", path)
	case job.Has("selector") && job.Fields["manualSelector"] == nil && !job.IsOpen():
		job.Report(mistake.InvalidValue, job.Fields["selector"].Node,
			"%s.selector: Kubernetes makes the selector of a Job: remove it", path)
	}
}

// checkJob checks what the fields of a Job, or of those of a CronJob, have to do with each other.
func checkJob(job *infer.Structure, path string) {
	mode, isKnown := job.OnlyText("completionMode")
	isIndexed := mode == string(batchv1.IndexedCompletion)
	if isIndexed && job.Has("parallelism") { // without that, there is one
		requires(job, "completionMode", "completions", path)
	}
	if job.Has("maxFailedIndexes") {
		requires(job, "maxFailedIndexes", "backoffLimitPerIndex", path)
	}
	for _, name := range []string{"backoffLimitPerIndex", "successPolicy"} {
		isOther := isKnown && !isIndexed || job.Fields["completionMode"] == nil && !job.IsOpen()
		if job.Has(name) && isOther {
			job.Report(mistake.InvalidValue, job.Fields[name].Node,
				"%s.%s: Kubernetes allows it only with completionMode: \"Indexed\"", path, name)
		}
	}
	restart, _ := job.In("template", "spec").OnlyText("restartPolicy")
	if job.Has("podFailurePolicy") && restart == string(corev1.RestartPolicyOnFailure) {
		job.Report(mistake.InvalidValue, job.Fields["podFailurePolicy"].Node,
			"%s.podFailurePolicy: Kubernetes allows it only with restartPolicy: \"Never\" in the Pods", path)
	}
	rules, _ := job.In("podFailurePolicy").Items("rules")
	for i, rule := range rules {
		at := fmt.Sprintf("%s.podFailurePolicy.rules[%d]", path, i)
		onlyOne(rule, at, "onExitCodes", "onPodConditions")
		if rule.Fields["onPodConditions"] == nil {
			mustHave(rule, "onExitCodes", at, "Kubernetes requires it or onPodConditions")
		}
	}
}

// checkDeadline reports a deadline of Pods that run until they are deleted.
func checkDeadline(workload *infer.Structure, path string) {
	pod := workload.In("template", "spec")
	if pod.Has("activeDeadlineSeconds") {
		pod.Report(mistake.InvalidValue, pod.Fields["activeDeadlineSeconds"].Node,
			"%s.template.spec.activeDeadlineSeconds: Kubernetes allows it only in Pods of their own and of Jobs", path)
	}
}

// checkClaim checks that a PersistentVolumeClaim states what the API server requires, if all of it is known.
func checkClaim(spec *infer.Structure, path string) {
	if !spec.IsStruct || spec.IsOpen() {
		return
	}
	resources := spec.In("resources")
	requests := resources.In("requests")
	if requests.Fields["storage"] == nil && !resources.IsOpen() && !requests.IsOpen() {
		spec.Report(mistake.MissingField, spec.Literals[0],
			"%s.resources.requests.storage: is missing: Kubernetes requires the size of a claim, as in \"1Gi\"", path)
	}
	mustHave(spec, "accessModes", path, `Kubernetes requires it, as in ["ReadWriteOnce"]`)
	size := requests.Literal("storage")
	if quantity, err := resource.ParseQuantity(fmt.Sprint(size)); err == nil && quantity.Sign() <= 0 {
		spec.Report(mistake.OutOfRange, requests.ValueNode("storage"),
			"%s.resources.requests.storage: %v must be more than 0", path, size)
	}
}

// checkJobName checks the name of a Job, which becomes a label of its Pods.
func checkJobName(job *infer.Structure, path string) {
	if job.In("spec").Fields["manualSelector"] != nil {
		return
	}
	mustParse(mistake.InvalidName, job.In("metadata"), "name", path+"metadata", func(name string) error {
		if len(name) > validation.LabelValueMaxLength {
			return fmt.Errorf("%q has more than %d characters: the Pods of a Job have its name as a label", name,
				validation.LabelValueMaxLength)
		}
		return nil
	})
}
