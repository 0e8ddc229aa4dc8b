package podrules

import (
	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// settings follows ValidatePodSpec for what is not a container or a volume.
func (p *pod) settings() {
	s, path := &p.Spec, p.spec
	oneOf(p.collector, path.Child("restartPolicy"), s.RestartPolicy, "", corev1.RestartPolicyAlways,
		corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	oneOf(p.collector, path.Child("dnsPolicy"), s.DNSPolicy, "", corev1.DNSClusterFirstWithHostNet,
		corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	if s.PreemptionPolicy != nil {
		oneOf(p.collector, path.Child("preemptionPolicy"), *s.PreemptionPolicy, corev1.PreemptLowerPriority,
			corev1.PreemptNever)
	}
	if s.ActiveDeadlineSeconds != nil {
		p.inRange(path.Child("activeDeadlineSeconds"), *s.ActiveDeadlineSeconds, 1, 1<<31-1)
	}
	p.add(metav1validation.ValidateLabels(s.NodeSelector, path.Child("nodeSelector"))...)
	p.label(path.Child("hostname"), s.Hostname)
	p.label(path.Child("subdomain"), s.Subdomain)
	p.subdomain(path.Child("serviceAccountName"), s.ServiceAccountName)
	p.subdomain(path.Child("nodeName"), s.NodeName)
	p.subdomain(path.Child("priorityClassName"), s.PriorityClassName)
	if s.RuntimeClassName != nil {
		p.invalid(path.Child("runtimeClassName"), *s.RuntimeClassName,
			validation.IsDNS1123Subdomain(*s.RuntimeClassName)...)
	}
	for i, alias := range s.HostAliases {
		path := path.Child("hostAliases").Index(i)
		p.add(validation.IsValidIPForLegacyField(path.Child("ip"), alias.IP, true, nil)...)
		for j, name := range alias.Hostnames {
			p.invalid(path.Child("hostnames").Index(j), name, validation.IsDNS1123Subdomain(name)...)
		}
	}
	for i, gate := range s.ReadinessGates {
		p.invalid(path.Child("readinessGates").Index(i).Child("conditionType"), gate.ConditionType,
			validation.IsQualifiedName(string(gate.ConditionType))...)
	}
	for i, gate := range s.SchedulingGates {
		p.invalid(path.Child("schedulingGates").Index(i).Child("name"), gate.Name,
			validation.IsQualifiedName(gate.Name)...)
	}
	p.tolerations()
	p.securityContext()
}

func (p *pod) label(path *field.Path, value string) {
	if value != "" {
		p.invalid(path, value, validation.IsDNS1123Label(value)...)
	}
}

func (p *pod) subdomain(path *field.Path, value string) {
	if value != "" {
		p.invalid(path, value, validation.IsDNS1123Subdomain(value)...)
	}
}

// tolerations follows ValidateTolerations.
func (p *pod) tolerations() {
	for i, t := range p.Spec.Tolerations {
		path := p.spec.Child("tolerations").Index(i)
		if t.Key != "" {
			p.invalid(path.Child("key"), t.Key, validation.IsQualifiedName(t.Key)...)
		} else if t.Operator != corev1.TolerationOpExists {
			p.invalid(path.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\"")
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			p.invalid(path.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
		}
		oneOf(p.collector, path.Child("effect"), t.Effect, "", corev1.TaintEffectNoSchedule,
			corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		switch t.Operator {
		case "", corev1.TolerationOpEqual:
			p.invalid(path.Child("value"), t.Value, validation.IsValidLabelValue(t.Value)...)
		case corev1.TolerationOpExists:
			if t.Value != "" {
				p.invalid(path.Child("value"), t.Value, "value must be empty when `operator` is 'Exists'")
			}
		default:
			p.add(field.NotSupported(path.Child("operator"), t.Operator,
				[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
		}
	}
}
