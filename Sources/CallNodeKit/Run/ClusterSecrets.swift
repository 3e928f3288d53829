internal import CallAuth
internal import CallBus
internal import CallCoordinator
internal import CallCore
internal import CallTelemetry
internal import Logging

/// The keys that a node verifies and signs with, and the revocations. Each follows its record in the cluster until
/// the bus is closed.
struct ClusterSecrets {
  /// nil for push gateways without a file of keys, which they need for webhooks only.
  let tokens: TokenAuthority?
  let pushKeys = PushKeyring()
  private let tickets = TicketKeyring()
  private let configuration: NodeConfiguration
  private let roles: NodeRoles
  private let clock: ClusterClock
  private let logger: Logger

  init(
    configuration: NodeConfiguration, roles: NodeRoles, keys: AppKeys?, clock: ClusterClock,
    logger: Logger
  ) {
    self.configuration = configuration
    self.roles = roles
    self.clock = clock
    self.logger = logger
    tokens = keys.map {
      TokenAuthority(
        keys: $0, maximumAgeSeconds: configuration.maxTokenAge.microseconds / 1_000_000)
    }
  }

  /// Verifies commands at a coordinator.
  var commandAuthority: CommandAuthority? {
    tokens.map { CommandAuthority(tokens: $0, tickets: tickets, pushKeys: pushKeys) }
  }

  /// Reads all records, and follows them from then on.
  /// - Throws: `BusError` where the store is not ready in time.
  func follow(_ bus: some ClusterBus, _ wait: StartWait) async throws {
    let limit = configuration.startTimeout
    let retry = wait.retryPolicy(for: "the store", limit: limit)
    try await retry { try await followPushKeys(bus) }
    let revocations = wait.retryPolicy(for: "the list of revoked tokens", limit: limit)
    try await revocations { try await openRevocations(bus) }
    if roles.hasCoordinator { try await retry { try await followTicketKeys(bus) } }
  }

  private var subjects: Subjects { Subjects(cluster: configuration.cluster, shardCount: 1) }

  /// Only coordinators create buckets.
  private var options: BucketOptions {
    roles.hasCoordinator ? configuration.buckets.small : configuration.existingBuckets
  }

  /// The keys for session tickets have a bucket of their own, which only coordinators may read.
  private func followTicketKeys(_ bus: some ClusterBus) async throws {
    let bucket = try await bus.openBucket(subjects.ticketBucket, options)
    try await KeysRecord.ensure(KeysRecord.tickets, in: bucket)
    _ = try await KeysRecord.follow(
      KeysRecord.tickets, in: bucket, tickets, { try SessionTicketKeys($0) },
      unreadable: { [logger] error in
        logger.error(
          "The keys for session tickets cannot be read.", metadata: .keys([.error: "\(error)"]))
      })
  }

  /// Gateways sign push capabilities; edges and coordinators verify them; coordinators make the keys.
  private func followPushKeys(_ bus: some ClusterBus) async throws {
    let agreed = try await bus.openBucket(subjects.configurationBucket, options)
    let unreadable = { @Sendable [logger] (error: String) in
      logger.error(
        "The keys for push capabilities cannot be read.", metadata: .keys([.error: "\(error)"]))
    }
    guard roles.hasCoordinator || roles.hasPush else {
      _ = try await KeysRecord.followPublic(agreed, pushKeys, unreadable: unreadable)
      return
    }
    let secret = try await bus.openBucket(subjects.pushKeyBucket, options)
    if roles.hasCoordinator { try await KeysRecord.ensurePush(in: secret, configuration: agreed) }
    _ = try await KeysRecord.follow(
      KeysRecord.push, in: secret, pushKeys, { try PushCapabilityKeys($0) },
      unreadable: unreadable)
  }

  /// Reads the whole list of revocations before any token is checked. Coordinators create the list.
  private func openRevocations(_ bus: some ClusterBus) async throws {
    guard roles.hasCoordinator || roles.hasEdge else { return }
    let options =
      roles.hasCoordinator
      ? Revocation.bucket(configuration.buckets) : configuration.existingBuckets
    let bucket = try await bus.openBucket(subjects.revocationBucket, options)
    guard let tokens else { return }
    _ = try await Revocation.follow(
      bucket,
      unreadable: { [logger] key in
        logger.error("A revocation cannot be read.", metadata: .keys([.key: "\(key)"]))
      },
      { [clock] revocation in
        tokens.revoke(
          app: revocation.app, user: revocation.user, atSeconds: revocation.atSeconds,
          now: clock.now().microseconds / 1_000_000)
      })
  }
}
