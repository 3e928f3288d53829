import CallProcesses
import Foundation
import Glibc

/// Several hosts on one machine: a network namespace each, joined by a bridge that the cluster talks
/// over, and each with a link of its own to this process, over which devices come. So a host can be
/// cut off from its peers while its devices still reach it, which is what a partition looks like.
///
/// Needs root, iproute2 and a kernel with namespaces, veth and bridges: `isPossible` tells.
final class HostNetwork: Sendable {
  let count: Int
  /// No other run has it, on this machine: two networks and the names of links.
  private let number: Int

  private static let ip: String? = {
    let places: [String] = ["/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip"]
    return places.first { FileManager.default.isExecutableFile(atPath: $0) }
  }()

  /// Whether this machine allows it; found out by trying.
  static let isPossible: Bool = {
    guard geteuid() == 0, ip != nil, let network = try? HostNetwork(hosts: 1) else { return false }
    network.remove()
    return true
  }()

  /// - Throws: when a command is refused; what was made by then is removed.
  init(hosts: Int) throws {
    count = hosts
    // As long as this process has reserved the port.
    number = try FreePorts.reserve() - 15_000
    do {
      try run("link add \(bridge) type bridge")
      try run("link set \(bridge) up")
      for host in 0..<hosts { try add(host) }
    } catch {
      remove()
      throw error
    }
  }

  deinit { remove() }

  /// Short, since names of links have 15 bytes.
  private var prefix: String { "cm" + String(number, radix: 36) }
  private var bridge: String { prefix + "k" }
  private func namespace(_ host: Int) -> String { "\(prefix)h\(host)" }
  private func peerLink(_ host: Int) -> String { "\(prefix)c\(host)" }
  private func deviceLink(_ host: Int) -> String { "\(prefix)d\(host)" }

  /// Where the other hosts reach it.
  func peerAddress(_ host: Int) -> String { "\(network(100)).\(host + 1)" }
  /// Where devices, and this process, reach it.
  func address(_ host: Int) -> String { "\(network(180)).\(4 * host + 2)" }
  private func network(_ first: Int) -> String { "10.\(first + number / 250).\(number % 250)" }

  private func add(_ host: Int) throws {
    let space = namespace(host)
    try run("netns add \(space)")
    try run("-n \(space) link set lo up")
    try run("link add \(peerLink(host)) type veth peer name peers netns \(space)")
    try run("link set \(peerLink(host)) master \(bridge) up")
    try run("-n \(space) addr add \(peerAddress(host))/24 dev peers")
    try run("-n \(space) link set peers up")
    try run("link add \(deviceLink(host)) type veth peer name devices netns \(space)")
    try run("addr add \(network(180)).\(4 * host + 1)/30 dev \(deviceLink(host))")
    try run("link set \(deviceLink(host)) up")
    try run("-n \(space) addr add \(address(host))/30 dev devices")
    try run("-n \(space) link set devices up")
  }

  /// Cuts a host off from its peers, without a word to either side.
  func cut(_ host: Int) throws { try run("link set \(peerLink(host)) down") }
  func heal(_ host: Int) throws { try run("link set \(peerLink(host)) up") }

  /// The command that runs a program on a host.
  func command(_ host: Int, _ program: String, _ arguments: [String]) -> [String] {
    [Self.ip ?? "ip", "netns", "exec", namespace(host), program] + arguments
  }

  /// Removes all of it, as far as it is there.
  func remove() {
    for host in 0..<count {
      try? run("netns del \(namespace(host))")
      try? run("link del \(peerLink(host))")
      try? run("link del \(deviceLink(host))")
    }
    try? run("link del \(bridge)")
  }

  private func run(_ arguments: String) throws {
    let output = try CommandOutput.now(
      ChildCommand(
        name: "ip", executable: Self.ip ?? "/usr/sbin/ip",
        arguments: arguments.split(separator: " ").map(String.init)))
    guard output.status == 0 else {
      throw TestCluster.Failure(description: "ip \(arguments) failed: \(output.errors)")
    }
  }
}
