package check

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fescue-dev/fescue/cue/kind"
	"github.com/fescue-dev/fescue/cue/kind/behaviour"
	"github.com/fescue-dev/fescue/cue/kind/infer"
	"github.com/fescue-dev/fescue/cue/kind/mistake"
	"github.com/fescue-dev/fescue/cue/kind/syntax"
	"github.com/fescue-dev/fescue/cue/kind/types"
)

// relations checks what the fields of a child have to do with each other, and texts of a form that no
// schema states: what the API server checks in addition, as far as it is the same for all objects.
func (c *Checker) relations(child *checkedChild) {
	if !child.known || !isBuiltIn(child.gvk) {
		return
	}
	prefix := child.path + ".template."
	if way, ok := types.PodTemplate(child.gvk.GroupKind()); ok {
		way = append(slices.Clone(way), "spec")
		pod, path := child.template.In(way...), prefix+strings.Join(way, ".")
		checkPod(child, pod, path)
		c.podValues(pod, child.node, path)
	}
	spec := child.template.In("spec")
	checkWorkload(child.gvk.Kind, spec, prefix+"spec")
	switch child.gvk.Kind {
	case "Job":
		checkJobName(child.template, prefix)
	case "Deployment":
		c.rollout(spec, prefix+"spec")
	case "HorizontalPodAutoscaler":
		c.scaler(spec, prefix+"spec")
	case "PersistentVolumeClaim":
		checkClaim(spec, prefix+"spec")
	case "PodDisruptionBudget":
		onlyOne(spec, prefix+"spec", "minAvailable", "maxUnavailable")
		for _, name := range []string{"minAvailable", "maxUnavailable"} {
			c.share(spec, name, prefix+"spec")
			notMoreThanAll(spec, name, prefix+"spec")
		}
	case "ConfigMap":
		checkBase64(child.template.In("binaryData"), prefix+"binaryData", "data")
	case "Secret":
		checkBase64(child.template.In("data"), prefix+"data", "stringData")
		checkSecretKeys(child.template, prefix)
	case "Ingress":
		checkBackends(spec, prefix+"spec")
	case "Service":
		checkExternalName(spec, prefix+"spec")
		checkPortNames(spec, prefix+"spec")
		checkSamePorts(spec, prefix+"spec")
		checkServiceType(spec, prefix+"spec")
	case "RoleBinding", "ClusterRoleBinding":
		checkSubjects(child, prefix+"subjects")
	case "Role", "ClusterRole":
		rules, _ := child.template.Items("rules")
		for i, rule := range rules {
			if rule.Has("resources") {
				mustHave(rule, "apiGroups", fmt.Sprintf("%srules[%d]", prefix, i),
					`Kubernetes requires it with resources: write [""] for the core group`)
			}
		}
	}
}

// rollout checks how a Deployment replaces its Pods.
func (c *Checker) rollout(spec *infer.Structure, path string) {
	strategy := spec.In("strategy")
	notWith(strategy, "Recreate", "rollingUpdate", path+".strategy")
	path += ".strategy.rollingUpdate"
	update := strategy.In("rollingUpdate")
	for _, name := range []string{"maxSurge", "maxUnavailable"} {
		c.share(update, name, path)
	}
	notMoreThanAll(update, "maxUnavailable", path)
	if isNone(update.Literal("maxSurge")) && isNone(update.Literal("maxUnavailable")) {
		update.Report(mistake.MutuallyExclusive, update.ValueNode("maxUnavailable"),
			"%s.maxUnavailable: cannot be 0 while maxSurge is: no Pod could be replaced", path)
	}
}

// isNone reports whether a number of Pods, or a percentage, is none.
func isNone(value any) bool { return value == int64(0) || value == "0%" }

// notMoreThanAll reports a percentage of Pods above all of them.
func notMoreThanAll(s *infer.Structure, name, path string) {
	mustParse(mistake.InvalidPercentage, s, name, path, func(text string) error {
		number, isPercentage := strings.CutSuffix(text, "%")
		if n, err := strconv.Atoi(number); err == nil && isPercentage && n > 100 {
			return fmt.Errorf("%q must be at most 100%%", text)
		}
		return nil
	})
}

// share checks a field that is a number or a percentage: its type allows any string.
func (c *Checker) share(s *infer.Structure, name, path string) {
	mustParse(mistake.InvalidPercentage, s, name, path, func(text string) error {
		if len(validation.IsValidPercent(text)) == 0 {
			return nil
		}
		return fmt.Errorf("%q must be a number, or a percentage like %q", text, "25%")
	})
	m := s.Fields[name]
	if m == nil || len(m.Parts) != 1 {
		return
	}
	p := m.Parts[0]
	v := c.Infer(p)
	if v.Kinds() != types.String || v.Literal != nil || v.IsType || len(v.Alternatives) > 0 || len(v.Type.Enum) > 0 {
		return
	}
	path, source := path+"."+name, syntax.SourceOf(p.Expr)
	if isInterpolation(p.Expr) {
		const unknown = "?"
		text, _, ok := c.Text(p, func(infer.Value) string { return unknown })
		if ok && !strings.HasSuffix(text, "%") && !strings.HasSuffix(text, unknown) {
			c.Report(mistake.InvalidPercentage, p.Node(),
				"%s: %s is no percentage, and the API server takes only a number or a percentage: end it in %%", path,
				source)
		}
		return
	}
	instead := fmt.Sprintf(`write strconv.Atoi(%s), or "\(%[1]s)%%"`, source)
	isOfNames := strings.HasPrefix(v.Path, behaviour.ObjectName+".metadata.") &&
		!strings.HasPrefix(v.Path, behaviour.ObjectName+".metadata.annotations.")
	if isOfNames { // a label or a name has no %
		c.Report(mistake.InvalidPercentage, p.Node(),
			"%s: %s is no percentage, and the API server takes only a number or a percentage: %s", path, source,
			instead)
		return
	}
	c.advice = append(c.advice, kind.Advice{
		Check: mistake.InvalidPercentage, Field: path, Position: syntax.PositionOf(p.Node()),
		Text: fmt.Sprintf(
			`%s: the API server takes only a number or a percentage like "25%%", and %s may be another string: %s, unless it is one`, path, source, instead),
	})
}

// scaler checks the bounds and the target of a HorizontalPodAutoscaler.
func (c *Checker) scaler(spec *infer.Structure, path string) {
	least, okLeast := spec.Literal("minReplicas").(int64)
	most, okMost := spec.Literal("maxReplicas").(int64)
	if okLeast && okMost && least > most {
		c.Report(mistake.MinimumAboveMaximum, spec.ValueNode("minReplicas"),
			"%s.minReplicas: %d is more than maxReplicas, %d", path, least, most)
	}
	target := spec.In("scaleTargetRef")
	apiVersion, okVersion := target.Text("apiVersion")
	name, okName := target.Text("kind")
	if okVersion && okName {
		if _, _, err := c.types.Find(apischema.FromAPIVersionAndKind(apiVersion, name)); err != nil {
			c.Report(mistake.UnknownType, target.Fields["apiVersion"].Node, "%s.scaleTargetRef: %v", path, err)
		}
	}
}

// checkBase64 checks values that are not shown, since they may be secret.
func checkBase64(data *infer.Structure, path, forText string) {
	for _, name := range data.Order {
		mustParse(mistake.InvalidBase64, data, name, path, func(text string) error {
			if _, err := base64.StdEncoding.DecodeString(text); err != nil {
				return errors.New("must be base64: write plain text in " + forText)
			}
			return nil
		})
	}
}

// checkExternalName checks that a Service that stands for a name has one, if all its fields are known.
func checkExternalName(spec *infer.Structure, path string) {
	name := spec.Fields["externalName"]
	text, _ := spec.Text("type")
	isGiven := name != nil && !name.Constraint
	if text != string(corev1.ServiceTypeExternalName) {
		return
	}
	mustParse(mistake.InvalidName, spec, "externalName", path, func(text string) error {
		if problems := validation.IsDNS1123Subdomain(strings.TrimSuffix(text, ".")); len(problems) > 0 {
			return fmt.Errorf("%q must be a DNS name like \"db.example.com\"", text)
		}
		return nil
	})
	if spec.IsOpen() || isGiven {
		return
	}
	spec.Report(mistake.MissingField, spec.ValueNode("type"),
		"%s.externalName: is missing: Kubernetes requires it with the type ExternalName: write the DNS name to resolve to, as in \"db.example.com\", or another type", path)
}

// checkPortNames checks that ports of a Service have names if there are several whatever the object is.
func checkPortNames(spec *infer.Structure, path string) {
	field := spec.Fields["ports"]
	if field == nil || len(field.Parts) != 1 {
		return
	}
	list, isList := field.Parts[0].Expr.(*ast.ListLit)
	mayBeLeftOut := func(item ast.Expr) bool { _, isStruct := item.(*ast.StructLit); return !isStruct }
	if !isList || len(list.Elts) < 2 || slices.ContainsFunc(list.Elts, mayBeLeftOut) {
		return
	}
	ports, _ := spec.Items("ports")
	for i, port := range ports {
		mustHave(port, "name", fmt.Sprintf("%s.ports[%d]", path, i), "Kubernetes requires names of several ports")
	}
}

// checkSamePorts reports a port of a Service with the name of another one, or with its number and protocol.
func checkSamePorts(spec *infer.Structure, path string) {
	ports, _ := spec.Items("ports")
	seen := make(map[string]bool)
	for i, port := range ports {
		var same []string
		if name, ok := port.OnlyText("name"); ok && name != "" {
			same = append(same, "name "+name)
		}
		protocol, isKnown := port.OnlyText("protocol")
		if port.Fields["protocol"] == nil && !port.IsOpen() {
			protocol, isKnown = string(corev1.ProtocolTCP), true
		}
		if number, ok := port.Literal("port").(int64); ok && isKnown && port.Fields["port"].Certain {
			same = append(same, fmt.Sprintf("port %d, protocol %s", number, protocol))
		}
		for _, key := range same {
			if seen[key] {
				port.Report(mistake.DuplicateItem, port.Literals[0], "%s.ports[%d]: a second item with %s", path, i,
					key)
			}
			seen[key] = true
		}
	}
}

// checkSubjects checks the ServiceAccounts to which a binding gives rights.
func checkSubjects(binding *checkedChild, path string) {
	subjects, _ := binding.template.Items("subjects")
	for i, subject := range subjects {
		if name, _ := subject.OnlyText("kind"); name != rbacv1.ServiceAccountKind {
			continue
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		if binding.gvk.Kind == "ClusterRoleBinding" { // a RoleBinding has one
			mustHave(subject, "namespace", at,
				"Kubernetes requires it of a ServiceAccount, as in object.metadata.namespace")
		}
		mustParse(mistake.InvalidName, subject, "name", at, func(name string) error {
			if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
				return fmt.Errorf("%q is not the name of a ServiceAccount: %s", name, problems[0])
			}
			return nil
		})
	}
}

// secretKeys are what the API server requires of a Secret of a type.
var secretKeys = map[corev1.SecretType][]string{
	corev1.SecretTypeTLS:              {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
	corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey},
	corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
	corev1.SecretTypeSSHAuth:          {corev1.SSHAuthPrivateKey},
}

// checkSecretKeys checks that a Secret has what its type requires, if all its fields are known.
func checkSecretKeys(secret *infer.Structure, prefix string) {
	ofType, _ := secret.OnlyText("type")
	data, text := secret.In("data"), secret.In("stringData")
	if secret.IsOpen() || data.IsOpen() || text.IsOpen() {
		return
	}
	for _, name := range secretKeys[corev1.SecretType(ofType)] {
		if data.Fields[name] == nil && text.Fields[name] == nil {
			secret.Report(mistake.MissingField, secret.ValueNode("type"),
				"%sdata.%q: is missing: Kubernetes requires it with the type %s", prefix, name, ofType)
		}
	}
}
