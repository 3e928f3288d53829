public import CallCore

/// The subjects, streams and buckets. All names begin with the cluster's name, so that several clusters can share a
/// NATS account.
public struct Subjects: Sendable {
  public let cluster: String
  private let commandTable: [String]

  public init(cluster: String, shardCount: Int) {
    self.cluster = cluster
    commandTable = (0..<shardCount).map { "\(cluster).shard.\($0).commands" }
  }

  // Each role publishes on subjects of its own, so that NATS can enforce its permissions: `NATSPermissions`.

  /// Commands to a shard, from edges. `CommandBatch`.
  public func commands(shard: Int) -> String { commandTable[shard] }
  /// The same from push gateways, and from other shards' coordinators.
  public func reports(shard: Int) -> String { "\(cluster).shard.\(shard).reports" }
  public func peers(shard: Int) -> String { "\(cluster).shard.\(shard).peers" }
  /// Where a sender of commands takes what shards send back: replies and deliveries to an edge, replies to a gateway or
  /// to another shard's coordinator (`PeerKind`). `EdgeBatch`.
  public func replies(to number: UInt64) -> String {
    switch PeerKind(of: number) {
    case nil: "\(cluster).edge.\(number)"
    case .coordinator: "\(cluster).peer.\(number)"
    case .gateway: "\(cluster).gateway.\(number)"
    }
  }
  /// A coordinator's own subject: others detect whether it is subscribed.
  public func coordinator(_ incarnation: UInt64) -> String {
    "\(cluster).coordinator.\(incarnation)"
  }
  /// Heartbeats of coordinators, and of all nodes of the previous version. `Heartbeat`.
  public var heartbeats: String { "\(cluster).heartbeat" }
  /// Heartbeats of edges (`edge`) and gateways (`push`).
  public func heartbeats(of role: String) -> String { "\(heartbeats).\(role)" }
  /// A shard's new owner requests all edges' sessions. `AnnounceRequest`.
  public var announceRequests: String { "\(cluster).announce" }
  /// Coordinators notify gateways of calls that stopped ringing. `PushWithdrawal`.
  public var pushWithdrawals: String { "\(cluster).push.withdrawals" }
  /// Gateways notify each other of rings that were dropped unsent. `PushNeverSent`.
  public var pushNeverSent: String { "\(cluster).push.never-sent" }
  /// Edges report that they have announced all sessions. `AnnounceDone`.
  public func announceDone(shard: Int) -> String { "\(cluster).shard.\(shard).announced" }
  /// Operators' requests. Every node answers, in JSON.
  public var adminStatus: String { "\(cluster).admin.status" }
  public var adminCall: String { "\(cluster).admin.call" }
  public var adminUser: String { "\(cluster).admin.user" }
  /// Lists of users and of calls. `ListQuery`. Coordinators answer, each for its shards.
  public var adminUsers: String { "\(cluster).admin.users" }
  public var adminCalls: String { "\(cluster).admin.calls" }

  /// The prefix of all orders' subjects.
  var orders: String { "\(cluster).orders" }
  /// An operator's order. NATS permits each operator its own name only, so the subject authenticates the operator.
  public func order(_ name: String, by operatorName: String) -> String {
    "\(orders).\(operatorName == "*" ? "*" : Self.keyPart(operatorName)).\(name)"
  }
  /// The audit stream, and a role's subject in it. `AuditRecord`.
  public var auditStream: String { "\(cluster)-audit" }
  public func audit(role: String) -> String { "\(cluster).audit.\(role)" }
  /// The stream of call records, and the one subject in it. `CallRecords`.
  public var recordStream: String { "\(cluster)-records" }
  public var records: String { "\(cluster).records" }

  /// The stream of users' histories, all its subjects, and a user's. `HistoryRecord`.
  public var historyStream: String { "\(cluster)-history" }
  public var histories: String { "\(cluster).history.*.*" }
  public func history(of user: UserKey) -> String {
    "\(cluster).history.\(Self.keyPart(user.app)).\(Self.keyPart(user.user))"
  }
  /// A stream of what is kept for apps, and an app's subject in it.
  public func appStream(_ kind: AppStreamKind) -> String { "\(cluster)-\(kind.name)" }
  public func appStream(_ kind: AppStreamKind, app: String) -> String {
    "\(cluster).\(kind.name).\(app == "*" ? "*" : Self.keyPart(app))"
  }
  /// How far webhooks are. `WebhookProgress`.
  public var webhookBucket: String { "\(cluster)-webhooks" }

  /// The prefix of a role's reply subjects.
  public func inbox(of role: String) -> String { "_INBOX.\(cluster).\(role)" }

  /// Settings that all nodes share.
  public var configurationBucket: String { "\(cluster)-config" }
  /// The keys of push capabilities.
  public var pushKeyBucket: String { "\(cluster)-push-keys" }
  public var leaseBucket: String { "\(cluster)-leases" }
  public var registrationBucket: String { "\(cluster)-registrations" }
  /// The owners of push tokens, by fingerprint and app. `TokenOwner`.
  public var tokenBucket: String { "\(cluster)-tokens" }
  /// Users whose tokens are revoked. `Revocation`.
  public var revocationBucket: String { "\(cluster)-revoked" }
  /// The keys of session tickets, for coordinators only.
  public var ticketBucket: String { "\(cluster)-tickets" }
  public var pushStream: String { "\(cluster)-push" }
  /// Push jobs for one provider, in one of its environments. `PushJob`.
  public func pushJobs(lane: String) -> String { "\(cluster).push.\(lane)" }
  public var buckets: [String] {
    [
      configurationBucket, pushKeyBucket, leaseBucket, registrationBucket, tokenBucket,
      checkpointStream, revocationBucket, ticketBucket, webhookBucket,
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

  /// The key of a user's rules, in the same bucket. Versions without rules, which read the keys that begin with a
  /// shard's number, do not see it.
  public static func rulesKey(shard: Int, app: String, user: String) -> String {
    "rules.\(shard).\(keyPart(app)).\(keyPart(user))"
  }

  /// The keys of the rules of a shard's users.
  public static func rulesFilter(shard: Int) -> String { "rules.\(shard).>" }

  /// The key of a push token's owner within an app.
  public static func tokenKey(_ fingerprint: String, app: String) -> String {
    "\(keyPart(fingerprint)).\(keyPart(app))"
  }

  /// Encodes text as one token of a key.
  public static func keyPart(_ text: String) -> String { KeyText.encode(text) }

  /// Decodes what `keyPart` has encoded; nil for anything else.
  public static func keyText(_ part: Substring) -> String? { KeyText.decode(part) }
}

extension AppStreamKind {
  /// In the names of the stream and its subjects.
  var name: String {
    switch self {
    case .events: "events"
    case .deadLetters: "dead-letters"
    }
  }
}

/// A subject with wildcards: `*` matches one token, `>` one or more tokens at the end.
package struct SubjectFilter: Sendable, Equatable {
  private let parts: [Substring]

  package init(_ text: String) {
    parts = text.split(separator: ".", omittingEmptySubsequences: false)
  }

  package func matches(_ subject: String) -> Bool {
    var rest = subject.utf8[...]
    var ended = false
    for (index, part) in parts.enumerated() {
      if ended { return false }
      if part == ">", index == parts.count - 1 { return !rest.isEmpty }
      let token = rest.prefix { $0 != UInt8(ascii: ".") }
      if part != "*", !part.utf8.elementsEqual(token) { return false }
      ended = token.endIndex == rest.endIndex
      rest = ended ? rest[rest.endIndex...] : rest[rest.index(after: token.endIndex)...]
    }
    return ended
  }

  /// Whether a server accepts the text as the subject of a subscription.
  package static func isValid(_ text: String) -> Bool {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    for (index, part) in parts.enumerated() {
      guard !part.isEmpty, part != ">" || index == parts.count - 1 else { return false }
      guard part.utf8.allSatisfy({ $0 > 32 && $0 != 127 }) else { return false }
    }
    return true
  }
}
