"""Network policies: pods reach what they need and no more."""

import ipaddress

from specdecode import names
from specdecode.manifests import network_policies

from tests import network
from tests.network import chosen
from tests.pods import pods

POLICIES = network_policies()


def openings(labels, direction):
    return network.openings(POLICIES, labels, direction)


def test_a_pod_of_no_component_is_closed_both_ways():
    assert openings({}, "ingress") == openings({}, "egress") == []


def test_servers_answer_those_who_ask_them_and_ask_nobody(rendered):
    clients = set()
    for component, _, template in pods(rendered[1]):
        labels = template["metadata"]["labels"]
        ways_in, ways_out = openings(labels, "ingress"), openings(labels, "egress")
        if component == "serving":
            assert ways_out == []
            (way,) = ways_in
            assert set(way) == {"from", "ports"} and way["ports"] == [{"protocol": "TCP", "port": names.SERVE_PORT}]
            (source,) = way["from"]
            clients = {c for c, _, t in pods(rendered[1]) if chosen(source["podSelector"], t["metadata"]["labels"])}
        else:
            assert ways_in == [], component
    assert clients == {"benchmark", "smoke", "accuracy"}


OTHERS_SERVERS = {"namespaceSelector": {"matchLabels": {names.BENCHMARKABLE_LABEL: "true"}}}
"""Whoever owns a namespace lets its servers be benchmarked over plain http, on any port."""


PRIVATE = ("169.254.169.254", "10.0.0.1", "10.100.0.1", "172.20.0.1", "192.168.1.1", "100.64.0.1")
"""Instance metadata, the VPC, the cluster's Services, what is peered, pods of clusters with custom networking."""
PUBLIC = ("3.5.128.1", "52.219.80.1", "8.8.8.8")
NODES_DNS = {"ipBlock": {"cidr": "169.254.20.10/32"}}
"""The address of NodeLocal DNSCache, which answers names in some clusters."""


def test_pods_reach_what_they_need_and_no_more(rendered):
    """To: S3, STS and the hubs by HTTPS, names, and servers, by a Service's address too (vpc-cni's controller compares
    the peer's selector with the Service's and the policy's port with the Service's target port)."""
    services = [obj["spec"] for obj in rendered[1] if obj["kind"] == "Service"]
    for component, _, template in pods(rendered[1]):
        reached, elsewhere = {}, []
        for way in openings(template["metadata"]["labels"], "egress"):
            peer, *beside = way["to"]
            assert beside == ([NODES_DNS] if {each["port"] for each in way.get("ports", ())} == {53} else [])
            if "ports" not in way:
                elsewhere.append(peer)
                continue
            for port in way["ports"]:
                reached[port["port"], port["protocol"]] = peer
        dns = reached.pop((53, "UDP"), None), reached.pop((53, "TCP"), None)
        https = reached.pop((443, "TCP"), None)
        server = reached.pop((names.SERVE_PORT, "TCP"), None)
        assert not reached, component
        assert (https is None) == (dns == (None, None)) == (component == "serving")
        assert (server is not None) == (component in ("benchmark", "smoke", "accuracy")) == bool(elsewhere)
        assert all(peer == OTHERS_SERVERS for peer in elsewhere)
        if server is not None:
            assert set(server) == {"podSelector"}
            for service in services:
                assert chosen(server["podSelector"], service["selector"])
                assert [p["targetPort"] for p in service["ports"]] == [names.SERVE_PORT]
        if https is not None:
            closed = [ipaddress.ip_network(block) for block in https["ipBlock"]["except"]]
            asks_servers = component in ("benchmark", "smoke", "accuracy")
            for address in PRIVATE:
                shut = any(ipaddress.ip_address(address) in block for block in closed)
                assert shut is (address == "169.254.169.254" or not asks_servers), (component, address)
            assert not any(ipaddress.ip_address(public) in block for block in closed for public in PUBLIC)
            assert dns[0] == dns[1]
            assert dns[0]["podSelector"] == {"matchLabels": {"k8s-app": "kube-dns"}}
            assert dns[0]["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
