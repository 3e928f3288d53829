/// A version of nats-server, as far as it matters to what the store keeps.
public struct StoreVersion: Sendable, Hashable, Comparable, CustomStringConvertible {
  public var major: Int
  public var minor: Int
  public var patch: Int

  public init(_ major: Int, _ minor: Int, _ patch: Int) {
    self.major = major
    self.minor = minor
    self.patch = patch
  }

  /// - Parameter text: as a server names itself, such as `2.10.23` or `2.12.0-RC.1`; nil for anything else.
  public init?(_ text: String) {
    let numbers = text.prefix { $0 != "-" && $0 != "+" }.split(separator: ".").map { Int($0) }
    guard numbers.count == 3, let major = numbers[0], let minor = numbers[1], let patch = numbers[2]
    else { return nil }
    self.init(major, minor, patch)
  }

  public var description: String { "\(major).\(minor).\(patch)" }

  public static func < (one: Self, other: Self) -> Bool {
    (one.major, one.minor, one.patch) < (other.major, other.minor, other.patch)
  }

  /// Whether a server that is killed while it cuts a stream off may come back with an empty one. It cuts
  /// the logs of replicated streams off by itself, so with replicas this loses what was acknowledged.
  ///
  /// Mended in nats-server 2.11.12 and 2.12.3.
  public var mayEmptyStreams: Bool {
    self < StoreVersion(2, 11, 12)
      || StoreVersion(2, 12, 0) <= self && self < StoreVersion(2, 12, 3)
  }

  /// Whether holes are known that let somebody in, or stop the server: those that the project's advisories name up to
  /// 2.11.16 and 2.12.7.
  public var hasKnownHoles: Bool {
    self < StoreVersion(2, 11, 16)
      || StoreVersion(2, 12, 0) <= self && self < StoreVersion(2, 12, 7)
  }

  /// For an operator: which servers should be upgraded, since others than this machine's programs reach them.
  /// - Parameter servers: their versions and addresses.
  public static func advisory(
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

  /// For an operator: what is wrong with such a store; nil where nothing is.
  /// - Parameters:
  ///   - versions: of the servers that nodes are connected to.
  ///   - replicas: how often the journal is kept.
  public static func warning(_ versions: some Sequence<String>, replicas: Int) -> String? {
    let bad = Set(versions.compactMap { StoreVersion($0) }.filter(\.mayEmptyStreams)).sorted()
    guard replicas > 1, !bad.isEmpty else { return nil }
    let names = bad.map(\.description).joined(separator: ", ")
    return
      "nats-server \(names) with \(replicas) replicas may lose streams when servers are killed "
      + "(docs/reliability.md): use 2.11.12, 2.12.3 or newer."
  }
}
