internal import CallCore
internal import CallTelemetry
internal import Logging
internal import Synchronization

/// Decides which connections the edge takes, and limits the rates of addresses. All event loops share it; its locks
/// are held for one access to a table.
final class PeerGate: Sendable {
  let limits: PeerLimits
  private let metrics: EdgeMetrics
  private let trusted: [AddressRange]
  private let unlimited: [AddressRange]
  private let connections = Mutex(Connections())
  private let rates: Mutex<Rates>
  private let logger: Logger
  private let logged = Mutex<[ConnectionRefusal: Logged]>([:])

  private struct Connections {
    var all = 0
    var byAddress: [PeerAddress: Int32] = [:]
  }

  private struct Rates {
    var requests: RateTable<PeerAddress>
    var failures: RateTable<PeerAddress>
    /// Verifications for all addresses with too many failures.
    var suspects: TokenBucket

    var count: Int { requests.count + failures.count }
    var forgotten: UInt64 { requests.forgottenEarly + failures.forgottenEarly }
  }

  /// The log's record of one kind of refusal.
  private struct Logged {
    /// When it was logged last.
    var at: Timestamp?
    /// How many there were since.
    var count = 0
  }

  private static let logInterval = Span.seconds(10)
  /// The cost of a failure, in thousandths. With a cost of 60, a rate of n a second allows n failures a minute.
  private static let failureCost: Int64 = 60_000

  init(_ configuration: EdgeConfiguration, _ metrics: EdgeMetrics, logger: Logger, now: Timestamp) {
    let limits = configuration.peers
    self.limits = limits
    self.metrics = metrics
    self.logger = logger
    trusted = configuration.trustedProxies
    unlimited = configuration.unlimitedAddresses
    let (requests, failures) = (limits.requestsPerAddress, limits.failedAuthsPerAddress)
    rates = Mutex(
      Rates(
        requests: RateTable(
          perSecond: requests, burst: 4 * requests, entriesMax: limits.addressRatesMax, now: now),
        failures: RateTable(
          perSecond: failures, burst: 60 * failures, entriesMax: limits.addressRatesMax, now: now),
        suspects: TokenBucket(burst: limits.suspectVerifications, now: now)))
    metrics.connectionsMax.set(Int64(limits.connectionsMax))
  }

  // MARK: Addresses

  /// Whether the address is that of a trusted proxy, which gives the addresses of the devices behind it.
  func isTrusted(_ address: PeerAddress) -> Bool { trusted.contains { $0.contains(address) } }

  /// The address as limits count it; nil where no limit holds: for trusted proxies, and for addresses that the
  /// operator exempts.
  private func limited(_ address: PeerAddress?) -> PeerAddress? {
    guard let address, !isTrusted(address), !unlimited.contains(where: { $0.contains(address) })
    else { return nil }
    return address.network
  }

  // MARK: Connections

  /// Counts a new connection. One that is taken must be given back with `release`.
  /// - Returns: why it is refused; nil where it is taken.
  func admit(_ address: PeerAddress?) -> ConnectionRefusal? {
    let key = limited(address)
    return connections.withLock { connections in
      guard connections.all < limits.connectionsMax else { return .all }
      if let key, !add(key, to: &connections) { return .address }
      connections.all += 1
      return nil
    }
  }

  /// Whether a tenth of the connections is free.
  var hasRoom: Bool {
    connections.withLock { $0.all < limits.connectionsMax - limits.connectionsMax / 10 }
  }

  /// A connection is closed.
  func release(_ address: PeerAddress?) {
    let key = limited(address)
    connections.withLock { connections in
      connections.all -= 1
      if let key { remove(key, from: &connections) }
    }
  }

  /// A proxy has given the address of the device whose connection it is.
  /// - Returns: false where that address has too many connections; then nothing has changed.
  func move(from former: PeerAddress?, to address: PeerAddress?) -> Bool {
    let (old, new) = (limited(former), limited(address))
    if old == new { return true }
    return connections.withLock { connections in
      if let new, !add(new, to: &connections) { return false }
      if let old { remove(old, from: &connections) }
      return true
    }
  }

  /// - Returns: false where the address has too many connections.
  private func add(_ key: PeerAddress, to connections: inout Connections) -> Bool {
    let count = connections.byAddress[key, default: 0]
    guard count < limits.connectionsPerAddress else { return false }
    connections.byAddress[key] = count + 1
    metrics.addresses.set(Int64(connections.byAddress.count))
    return true
  }

  private func remove(_ key: PeerAddress, from connections: inout Connections) {
    let count = connections.byAddress[key, default: 1] - 1
    connections.byAddress[key] = count > 0 ? count : nil
    metrics.addresses.set(Int64(connections.byAddress.count))
  }

  // MARK: Rates

  /// Takes a request from the rate of its address.
  /// - Returns: nil; or the milliseconds to wait where the rate is exceeded.
  func chargeRequest(of address: PeerAddress?, now: Timestamp) -> UInt32? {
    guard let key = limited(address) else { return nil }
    return counting { $0.requests.charge(key, now: now) }
  }

  /// A credential of the address was refused.
  /// - Returns: nil; or the milliseconds to wait where too many were.
  func failedToAuthenticate(_ address: PeerAddress?, now: Timestamp) -> UInt32? {
    guard let key = limited(address) else { return nil }
    return counting { $0.failures.charge(key, cost: Self.failureCost, now: now) }
  }

  /// Takes the verification of a credential from what all addresses with too many refused ones have together. So a good
  /// one from such an address is accepted, and a flood of bad ones has a bounded cost.
  /// - Returns: nil; or the milliseconds to wait where that is used up.
  func chargeVerification(of address: PeerAddress?, now: Timestamp) -> UInt32? {
    guard let key = limited(address) else { return nil }
    let most = limits.suspectVerifications
    return rates.withLock { rates in
      guard rates.failures.wait(key, cost: Self.failureCost, now: now) != nil else { return nil }
      return rates.suspects.consume(perSecond: most, burst: most, now: now)
    }
  }

  private func counting(_ body: (inout Rates) -> UInt32?) -> UInt32? {
    rates.withLock { rates in
      let before = rates.forgotten
      let wait = body(&rates)
      let forgotten = rates.forgotten - before
      if forgotten > 0 { metrics.addressRatesForgotten.increment(by: forgotten) }
      metrics.addressRates.set(Int64(rates.count))
      return wait
    }
  }

  // MARK: Refusals

  /// Counts a refused connection, and logs it, at most every ten seconds for each kind.
  func refused(_ refusal: ConnectionRefusal, _ address: PeerAddress?, now: Timestamp) {
    metrics.count(refusal: refusal)
    let count: Int? = logged.withLock { logged in
      var entry = logged[refusal] ?? Logged()
      entry.count += 1
      let isDue = entry.at.map { now >= $0 + Self.logInterval } ?? true
      logged[refusal] = isDue ? Logged(at: now) : entry
      return isDue ? entry.count : nil
    }
    guard let count else { return }
    var metadata: Logger.Metadata = .keys([
      .reason: "\(refusal.rawValue)", .count: "\(count)",
    ])
    if let address { metadata[LogKey.address.rawValue] = "\(address)" }
    logger.warning("\(remedy(refusal))", metadata: metadata)
  }

  private func remedy(_ refusal: ConnectionRefusal) -> String {
    switch refusal {
    case .all:
      "The edge has \(limits.connectionsMax) connections and refuses further ones: add an edge, or "
        + "raise connectionsMax and the limit of open files (LimitNOFILE)."
    case .address:
      "An address has \(limits.connectionsPerAddress) connections and gets no further ones: where many "
        + "devices share it, raise connectionsPerAddress or name it in unlimitedAddresses; where it is "
        + "a proxy, name it in trustedProxies."
    case .unattached:
      "Too many connections on which no device has attached: the oldest are closed. Somebody floods "
        + "the edge, or raise unattachedMax."
    case .descriptors:
      "The edge has no file descriptor left for further connections, and tries again every second: "
        + "raise the limit of open files (LimitNOFILE), or lower connectionsMax."
    }
  }
}
