internal import CallCore

/// The names on the bus. All begin with the cluster's name, so that several clusters can share a
/// NATS account.
public struct Subjects: Sendable {
  public let cluster: String
  private let commandTable: [String]

  public init(cluster: String, shardCount: Int) {
    self.cluster = cluster
    commandTable = (0..<shardCount).map { "\(cluster).shard.\($0).commands" }
  }

  // Each role has subjects of its own to speak on, so that NATS can keep it to them: `NATSPermissions`.

  /// Commands to a shard, from edges. `CommandBatch`.
  public func commands(shard: Int) -> String { commandTable[shard] }
  /// The same from push gateways, and from other shards' coordinators.
  public func reports(shard: Int) -> String { "\(cluster).shard.\(shard).reports" }
  public func peers(shard: Int) -> String { "\(cluster).shard.\(shard).peers" }
  /// Replies and deliveries to an edge; replies to who else has asked a shard (`PeerKind`). `EdgeBatch`.
  public func edge(_ number: UInt64) -> String {
    switch PeerKind(of: number) {
    case nil: "\(cluster).edge.\(number)"
    case .coordinator: "\(cluster).peer.\(number)"
    case .gateway: "\(cluster).gateway.\(number)"
    }
  }
  /// Where a coordinator listens for nothing but being there.
  public func coordinator(_ incarnation: UInt64) -> String {
    "\(cluster).coordinator.\(incarnation)"
  }
  /// Heartbeats of coordinators, and of all nodes of the version before. `Heartbeat`.
  public var heartbeats: String { "\(cluster).heartbeat" }
  /// Heartbeats of edges (`edge`) and gateways (`push`).
  public func heartbeats(of role: String) -> String { "\(heartbeats).\(role)" }
  /// A shard's new owner asks all edges for their sessions. `AnnounceRequest`.
  public var announceRequests: String { "\(cluster).announce" }
  /// Coordinators tell gateways of calls that ring no more. `PushWithdrawal`.
  public var pushWithdrawals: String { "\(cluster).push.withdrawals" }
  /// Gateways tell each other of rings that nobody has sent. `PushNeverSent`.
  public var pushNeverSent: String { "\(cluster).push.never-sent" }
  /// Edges say that they announced all. `AnnounceDone`.
  public func announceDone(shard: Int) -> String { "\(cluster).shard.\(shard).announced" }
  /// Operators' questions; the answer is JSON. Every node answers.
  public var adminStatus: String { "\(cluster).admin.status" }
  public var adminCall: String { "\(cluster).admin.call" }
  public var adminUser: String { "\(cluster).admin.user" }
  /// Lists of users and of calls. `ListQuery`. Coordinators answer, each for its shards.
  public var adminUsers: String { "\(cluster).admin.users" }
  public var adminCalls: String { "\(cluster).admin.calls" }
  /// Where nodes of the version before heard that they are to drain.
  public var formerDrain: String { "\(cluster).admin.drain" }

  /// Begins the subjects of all orders.
  var orders: String { "\(cluster).orders" }
  /// An operator's order. Each operator may use its own name only: that is how nodes know who gives it.
  public func order(_ name: String, by operatorName: String) -> String {
    "\(orders).\(operatorName == "*" ? "*" : Self.keyPart(operatorName)).\(name)"
  }
  /// The stream of what operators ordered, and what nodes of a role append to it. `AuditRecord`.
  public var auditStream: String { "\(cluster)-audit" }
  public func audit(role: String) -> String { "\(cluster).audit.\(role)" }

  /// Where a role's connections take answers.
  public func inbox(of role: String) -> String { "_INBOX.\(cluster).\(role)" }

  /// What is agreed on by all nodes.
  public var configurationBucket: String { "\(cluster)-config" }
  /// The keys that sign what pushes allow.
  public var pushKeyBucket: String { "\(cluster)-push-keys" }
  public var leaseBucket: String { "\(cluster)-leases" }
  public var registrationBucket: String { "\(cluster)-registrations" }
  /// Whose a push token is, by its fingerprint and app. `TokenOwner`.
  public var tokenBucket: String { "\(cluster)-tokens" }
  /// Whose tokens were revoked. `Revocation`.
  public var revocationBucket: String { "\(cluster)-revoked" }
  /// The keys for session tickets; for coordinators only.
  public var ticketBucket: String { "\(cluster)-tickets" }
  /// The stream of push jobs.
  public var pushStream: String { "\(cluster)-push" }
  /// Push jobs for one provider, in one of its environments. `PushJob`.
  public func pushJobs(lane: String) -> String { "\(cluster).push.\(lane)" }
  /// All buckets of the cluster.
  public var buckets: [String] {
    [
      configurationBucket, pushKeyBucket, leaseBucket, registrationBucket, tokenBucket,
      checkpointStream, revocationBucket, ticketBucket,
    ]
  }
  public var journalStream: String { "\(cluster)-journal" }
  public var checkpointStream: String { "\(cluster)-checkpoints" }

  /// The registration key of a device: shard, app, user, device, each encoded.
  public static func registrationKey(shard: Int, app: String, user: String, device: String)
    -> String
  {
    "\(shard).\(keyPart(app)).\(keyPart(user)).\(keyPart(device))"
  }

  /// The key of a token's claim: each app has its own.
  public static func tokenKey(_ fingerprint: String, app: String) -> String {
    "\(keyPart(fingerprint)).\(keyPart(app))"
  }

  /// Encodes text as one part of a key: letters, digits and `-` stand for themselves, every other
  /// byte is `_` and two hex digits, so that the parts can be told apart and read back.
  public static func keyPart(_ text: String) -> String {
    var out = ""
    for byte in text.utf8 {
      switch byte {
      case 48...57, 65...90, 97...122, 45: out.unicodeScalars.append(Unicode.Scalar(byte))
      default:
        out += "_"
        out += byte < 16 ? "0" + String(byte, radix: 16) : String(byte, radix: 16)
      }
    }
    return out
  }

  /// The text of a part of a key; nil for what `keyPart` does not write.
  public static func keyText(_ part: Substring) -> String? {
    var bytes: [UInt8] = []
    var rest = part.utf8[...]
    while let byte = rest.popFirst() {
      if byte != UInt8(ascii: "_") {
        bytes.append(byte)
        continue
      }
      guard rest.count >= 2, let value = UInt8(String(Substring(rest.prefix(2))), radix: 16)
      else { return nil }
      bytes.append(value)
      rest = rest.dropFirst(2)
    }
    guard let text = String(validating: bytes, as: UTF8.self), keyPart(text) == part else {
      return nil
    }
    return text
  }
}
