package serving

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"
)

// How long the API server's answers are cached, as in controller-runtime: scrapers come back
// every few seconds with the same token. Denials are cached for a shorter time, and invalid
// tokens not at all.
const (
	tokenTTL   = time.Minute
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
	// reviewTimeout is Prometheus' default scrape timeout.
	reviewTimeout = 10 * time.Second
)

// auth admits clients whose token the API server accepts and who are allowed to get the path
// that they ask for. It does not retry: the next scrape does.
type auth struct {
	client kubernetes.Interface
	log    *slog.Logger
	// users has the users of tokens, and access whether a user may get a path. The keys are hashes, so that
	// clients cannot make them long.
	users, access *utilcache.LRUExpireCache
}

// maxCached bounds each of the caches, which clients add to.
const maxCached = 1024

// newAuth delegates to the API server, by TokenReview and SubjectAccessReview.
func newAuth(client kubernetes.Interface, log *slog.Logger) *auth {
	return &auth{client: client, log: log, users: utilcache.NewLRUExpireCache(maxCached),
		access: utilcache.NewLRUExpireCache(maxCached)}
}

// protect answers 401 to clients without a valid token, 403 to clients that are not allowed to
// get the path, and 500 if the API server does not answer.
func (a *auth) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
		defer cancel()
		user, err := a.userOf(ctx, r)
		switch {
		case err != nil:
			a.log.Error("the token of a request for metrics cannot be reviewed", "error", err)
			http.Error(w, "the token cannot be reviewed", http.StatusInternalServerError)
			return
		case user == nil:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a valid bearer token is required", http.StatusUnauthorized)
			return
		}
		allowed, err := a.mayGet(ctx, user, r.URL.Path)
		switch {
		case err != nil:
			a.log.Error("the access to metrics cannot be reviewed", "user", user.Username, "error", err)
			http.Error(w, "the access cannot be reviewed", http.StatusInternalServerError)
		case !allowed:
			http.Error(w, fmt.Sprintf("user %q cannot get path %q", user.Username, r.URL.Path), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// userOf returns the user of the bearer token of a request; nil if there is none that is valid.
func (a *auth) userOf(ctx context.Context, r *http.Request) (*authenticationv1.UserInfo, error) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, nil
	}
	key := sha256.Sum256([]byte(token))
	if user, ok := a.users.Get(key); ok {
		return user.(*authenticationv1.UserInfo), nil
	}
	review, err := a.client.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	if !review.Status.Authenticated {
		a.log.Debug("request for metrics without a valid token", "error", review.Status.Error)
		return nil, nil
	}
	a.users.Add(key, &review.Status.User, tokenTTL)
	return &review.Status.User, nil
}

// mayGet reports whether a user is allowed to get a path.
func (a *auth) mayGet(ctx context.Context, user *authenticationv1.UserInfo, path string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups,
		Extra:                 make(map[string]authorizationv1.ExtraValue, len(user.Extra)),
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}
	for name, values := range user.Extra {
		spec.Extra[name] = authorizationv1.ExtraValue(values)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return false, err
	}
	key := sha256.Sum256(text)
	if allowed, ok := a.access.Get(key); ok {
		return allowed.(bool), nil
	}
	review, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
		&authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	allowed, ttl := review.Status.Allowed, allowedTTL
	if !allowed {
		a.log.Debug("request for metrics denied", "user", user.Username, "path", path, "reason", review.Status.Reason)
		ttl = deniedTTL
	}
	a.access.Add(key, allowed, ttl)
	return allowed, nil
}

// tlsConfig serves a certificate or, without one, a self-signed certificate that no client can
// verify, as in controller-runtime. HTTP/2 is off, as for the webhooks.
func tlsConfig(getCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		GetCertificate: getCertificate}
	if getCertificate != nil {
		return config, nil
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	config.Certificates = []tls.Certificate{pair}
	return config, err
}
