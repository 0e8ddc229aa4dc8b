package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The operators that are compared. floor sends the same requests and does nothing else; few
// scenarios have it.
const (
	fescue = "fescue"
	byHand = "by-hand"
	floor  = "floor"
)

// operatorNamespace has the service accounts of the operators, by which audit.yaml selects their
// requests.
const operatorNamespace = "fescue-bench"

// launch starts the operator and waits until it reconciles all kinds.
func (e *environment) launch(ctx context.Context, webhook bool) error {
	if err := e.startOperator(webhook); err != nil {
		return err
	}
	if err := e.process.awaitReady(ctx); err != nil {
		return fmt.Errorf("wait for the operator: %w", err)
	}
	return e.awaitKinds(ctx)
}

// startOperator starts the operator, with its webhook if that is asked for.
func (e *environment) startOperator(webhook bool) error {
	addresses, err := freeAddresses(3)
	if err != nil {
		return err
	}
	health, metrics, listen := addresses[0], addresses[1], addresses[2]
	args := []string{"--kubeconfig", e.kubeconfig}
	if webhook {
		if err := e.writeCertificate(); err != nil {
			return err
		}
		e.webhook = "https://" + listen + "/inject"
	}
	_, port, _ := net.SplitHostPort(listen)
	switch e.operator {
	case fescue:
		args = append([]string{"run"}, append(args, "--health-listen", health, "--metrics-listen", metrics,
			"--profiling")...)
		if webhook {
			args = append(args, "--webhook-url", "https://"+listen, "--webhook-listen", listen, "--webhook-cert-dir",
				e.dir)
		}
	case byHand:
		args = append(args, "--health-probe-bind-address", health, "--metrics-bind-address", metrics)
		if webhook {
			args = append(args, "--webhook-cert-dir", e.dir, "--webhook-port", port)
		}
	case floor:
		args = append([]string{floorCommand}, append(args, "--health", health)...)
		if webhook {
			args = append(args, "--webhook-cert-dir", e.dir, "--webhook", listen)
		}
	}
	args = append(args, e.args...)
	e.process, err = startProcess(e.program, args, filepath.Join(e.dir, e.operator+".log"))
	if err != nil {
		return err
	}
	e.process.health, e.process.metrics = "http://"+health+"/readyz", "http://"+metrics
	return nil
}

// writeCertificate writes the certificate of the webhook.
func (e *environment) writeCertificate() error {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return err
	}
	// The certificate is followed by that of its CA.
	for _, name := range []string{"tls.crt", "ca.crt"} {
		if err := os.WriteFile(filepath.Join(e.dir, name), certificate, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(e.dir, "tls.key"), key, 0o600)
}

// freeAddresses returns loopback addresses with ports that were free a moment ago: below those that Linux gives to
// connections, from 32768 on, and NodePorts, from 30000 on, so that nobody takes one before the operator listens.
func freeAddresses(n int) ([]string, error) {
	const firstPort, lastPort = 20000, 29999
	var addresses []string
	for _, i := range rand.Perm(lastPort - firstPort + 1) {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+i))
		listener, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer func() { _ = listener.Close() }()
		if addresses = append(addresses, address); len(addresses) == n {
			return addresses, nil
		}
	}
	return nil, fmt.Errorf("fewer than %d ports from %d to %d are free", n, firstPort, lastPort)
}

// user returns the name of the operator in the audit log.
func (e *environment) user() string {
	return "system:serviceaccount:" + operatorNamespace + ":" + e.operator
}

// grant creates the operator's service account, as an administrator of the cluster, and writes its
// kubeconfig.
func (e *environment) grant(ctx context.Context) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: e.operator}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}},
		account,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace + "-" + e.operator},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: operatorNamespace,
				Name: e.operator}},
		},
	} {
		if err := e.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(
		int64(24 * 60 * 60))}}
	if err := e.client.SubResource("token").Create(ctx, account, token); err != nil {
		return err
	}
	e.kubeconfig = filepath.Join(e.dir, "kubeconfig")
	return writeKubeconfig(e.kubeconfig, e.config, token.Status.Token)
}

func writeKubeconfig(file string, config *rest.Config, token string) error {
	written := clientcmdapi.NewConfig()
	written.Clusters["bench"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	written.AuthInfos["bench"] = &clientcmdapi.AuthInfo{Token: token}
	written.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	written.CurrentContext = "bench"
	return clientcmd.WriteToFile(*written, file)
}
