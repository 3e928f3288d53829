/// A version of nats-server. It decides which faults of the store a node warns of.
package struct StoreVersion: Hashable, Comparable, CustomStringConvertible {
  /// Major, minor and patch.
  private let numbers: [Int]

  /// - Parameter text: as a server names itself, such as `2.10.23` or `2.12.0-RC.1`; nil for anything else.
  package init?(_ text: String) {
    let parts = text.prefix { $0 != "-" && $0 != "+" }.split(separator: ".")
    numbers = parts.compactMap { Int($0) }
    guard parts.count == 3, numbers.count == 3 else { return nil }
  }

  package var description: String { numbers.map(String.init).joined(separator: ".") }

  package static func < (one: Self, other: Self) -> Bool {
    one.numbers.lexicographicallyPrecedes(other.numbers)
  }

  /// Whether a server that is killed while it truncates a stream may come back with an empty one. It truncates
  /// the logs of replicated streams by itself, so with replicas this loses acknowledged records.
  package var mayEmptyStreams: Bool { isBefore(patch11: 12, patch12: 3) }

  /// Whether the version has known vulnerabilities that admit an attacker or stop the server: those of the
  /// project's advisories up to 2.11.16 and 2.12.7.
  package var hasKnownHoles: Bool { isBefore(patch11: 16, patch12: 7) }

  /// Whether the version lacks what was fixed in these patches of 2.11 and of 2.12.
  private func isBefore(patch11: Int, patch12: Int) -> Bool {
    numbers.lexicographicallyPrecedes([2, 11, patch11])
      || numbers.starts(with: [2, 12]) && numbers[2] < patch12
  }

  /// Returns advice to upgrade servers that other machines can reach; nil where none needs it.
  /// - Parameter servers: their versions and addresses.
  package static func advisory(
    _ servers: some Sequence<(version: String, address: String)>
  ) -> String? {
    let old = servers.filter { server in
      !isLoopback(server.address) && StoreVersion(server.version)?.hasKnownHoles == true
    }
    guard !old.isEmpty else { return nil }
    let names = Set(old.compactMap { StoreVersion($0.version) }).sorted().map(\.description)
    return
      "nats-server \(names.joined(separator: ", ")) has known holes (docs/operations.md, NATS): use "
      + "2.11.16, 2.12.7 or newer."
  }

  /// - Parameter address: such as `nats://127.0.0.1:4222`.
  private static func isLoopback(_ address: String) -> Bool {
    let host = address.firstRange(of: "://").map { address[$0.upperBound...] } ?? address[...]
    return ["127.", "localhost", "[::1]"].contains { host.hasPrefix($0) }
  }

  /// Returns a warning about the store for operators; nil where there is none.
  /// - Parameters:
  ///   - versions: the versions of the servers that nodes are connected to.
  ///   - replicas: how often the journal is kept.
  package static func warning(_ versions: some Sequence<String>, replicas: Int) -> String? {
    let bad = Set(versions.compactMap { StoreVersion($0) }.filter(\.mayEmptyStreams)).sorted()
    guard replicas > 1, !bad.isEmpty else { return nil }
    let names = bad.map(\.description).joined(separator: ", ")
    return
      "nats-server \(names) with \(replicas) replicas may lose streams when servers are killed "
      + "(docs/reliability.md): use 2.11.12, 2.12.3 or newer."
  }
}
