package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	kwokNodeName = "kwok"
	kwokUser     = "kwok"
	// deletesTwice is a label of namespaces in which kwok may delete a Pod that is not being deleted.
	deletesTwice = "devcluster.fescue.dev/kwok-deletes-twice"
)

// startKwok starts kwok and registers its node.
func (c *controlPlane) startKwok(ctx context.Context, fail context.CancelCauseFunc, client kubernetes.Interface) error {
	if err := forbidSecondDeletion(ctx, client); err != nil {
		return err
	}
	if err := os.WriteFile(c.path("stages.yaml"), []byte(kwokStages()), 0o644); err != nil {
		return err
	}
	if err := c.launch(fail, "kwok",
		"--kubeconfig", c.path(kwokUser+".kubeconfig"), "--config", c.path("stages.yaml"),
		"--manage-all-nodes", "--node-lease-duration-seconds=40"); err != nil {
		return err
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: kwokNodeName,
		Labels: map[string]string{corev1.LabelHostname: kwokNodeName, corev1.LabelOSStable: "linux",
			corev1.LabelArchStable: runtime.GOARCH},
	}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create node: %w", err)
	}
	return nil
}

// forbidSecondDeletion lets kwok remove only Pods that are being deleted, as a kubelet does. It
// removes each Pod twice, by its name; the second request would hit a new Pod of that name.
func forbidSecondDeletion(ctx context.Context, client kubernetes.Interface) error {
	const name = "kwok.devcluster.fescue.dev"
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: deletesTwice, Operator: metav1.LabelSelectorOpDoesNotExist},
				}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Delete},
						Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
							Resources: []string{"pods"}},
					},
				}},
			},
			MatchConditions: []admissionv1.MatchCondition{{Name: "kwok",
				Expression: fmt.Sprintf("request.userInfo.username == %q", kwokUser)}},
			Validations: []admissionv1.Validation{{Expression: "has(oldObject.metadata.deletionTimestamp)",
				Message: "a node removes only Pods that are being deleted"}},
		},
	}
	if _, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, policy,
		metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the policy for kwok: %w", err)
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	if _, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, binding,
		metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("bind the policy for kwok: %w", err)
	}
	return nil
}
