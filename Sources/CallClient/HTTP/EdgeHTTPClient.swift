public import CallCore
public import CallWire
package import NIOCore
internal import NIOPosix

/// Requests of a device without a session, over HTTP: it registers, and acts on a call that a push
/// announced.
///
/// Each request is retried at the next edge until one answers or `Options.deadline` has passed. All
/// requests are idempotent. HTTPS is used where the edge is at `wss://`.
public struct EdgeHTTPClient: Sendable {
  public struct Options: Sendable {
    /// The limit of a request with all its attempts. An app that a push woke has some 30 s in all.
    public var deadline: Span = .seconds(15)
    /// The limit of one attempt, connecting included. An edge waits up to 5 s for the cluster.
    public var attemptTimeout: Span = .seconds(6)
    /// The wait before the second attempt. It doubles with each further attempt, with jitter of half.
    public var backoffMinimum: Span = .milliseconds(250)
    /// The longest wait between attempts.
    public var backoffMaximum: Span = .seconds(4)
    public init() {}
  }

  private let edges: [EdgeAddress]
  private let options: Options
  private let trust: EdgeTrust
  private let group: any EventLoopGroup

  /// - Parameters:
  ///   - edges: `wss://host:port` or `ws://host:port`, in order of preference. Invalid ones are ignored.
  ///   - trust: the authorities for edges at `wss://`.
  public init(edges: [String], options: Options = Options(), trust: EdgeTrust = .system) {
    self.init(
      edges: edges, options: options, trust: trust, group: MultiThreadedEventLoopGroup.singleton)
  }

  package init(edges: [String], options: Options, trust: EdgeTrust, group: any EventLoopGroup) {
    self.edges = edges.compactMap { EdgeAddress($0) }
    self.options = options
    self.trust = trust
    self.group = group
  }

  /// Stores a device's push tokens and capabilities.
  /// - Parameters:
  ///   - device: the device's id; nil if the token names it.
  ///   - token: the user's JWT.
  /// - Returns: the registration as stored.
  /// - Throws: `CallError`: the cluster's refusal, or `tryAgain` if no edge answered in time.
  public func register(
    _ request: RegistrationRequest, device: DeviceID? = nil, token: String
  ) async throws(CallError) -> RegisteredInfo {
    let body = HTTPBodies.encode(HTTPBodies.Register(device: device, request: request))
    return try await perform(
      EdgeRequest(
        method: "POST", path: "/v1/devices", authorization: "Bearer \(token)", body: body),
      HTTPBodies.readRegistered)
  }

  /// Removes a device's registration, at logout.
  /// - Throws: `CallError`, as `register`.
  public func unregister(_ device: DeviceID, token: String) async throws(CallError) {
    try await perform(
      EdgeRequest(
        method: "DELETE", path: "/v1/devices/\(PercentEncoding.encode(device.text))",
        authorization: "Bearer \(token)", body: [])
    ) { _ in () }
  }

  /// Asks for ended calls of the user, the newest first.
  /// - Parameters:
  ///   - before: as in `CallDevice.history`.
  ///   - device: the device's id; nil if the token names it.
  /// - Throws: `CallError`, as `register`; `forbidden` if the app has no history.
  public func history(
    before: HistoryCursor? = nil, limit: Int = 50, device: DeviceID? = nil, token: String
  ) async throws(CallError) -> HistoryPage {
    var path = "/v1/history?limit=\(max(1, limit))"
    if let before { path += "&before=\(before.text)" }
    if let device { path += "&device=\(PercentEncoding.encode(device.text))" }
    return try await perform(
      EdgeRequest(method: "GET", path: path, authorization: "Bearer \(token)", body: []),
      HTTPBodies.readHistory)
  }

  /// The user has read the history up to a cursor, on all of its devices.
  /// - Throws: `CallError`, as `history`.
  @discardableResult
  public func markHistoryRead(
    upTo cursor: HistoryCursor, device: DeviceID? = nil, token: String
  ) async throws(CallError) -> HistoryPage {
    let query = device.map { "?device=\(PercentEncoding.encode($0.text))" } ?? ""
    return try await perform(
      EdgeRequest(
        method: "POST", path: "/v1/history/read\(query)", authorization: "Bearer \(token)",
        body: HTTPBodies.encode(readUpTo: cursor)), HTTPBodies.readHistory)
  }

  /// The actions that a push allows. See `PushActions`.
  public func actions(callee: String, call: CallID, capability: String) -> PushActions {
    PushActions(client: self, callee: callee, call: call, capability: capability)
  }

  // MARK: Inside

  /// - Parameter read: decodes a response's body; nil for a body that no edge writes.
  /// - Throws: `CallError`, as `register`.
  package func perform<Value: Sendable>(
    _ request: EdgeRequest, _ read: ([UInt8]) -> Value?
  ) async throws(CallError) -> Value {
    let clock = ContinuousClock()
    let start = clock.now
    var now: Timestamp { Timestamp(microseconds: (clock.now - start).wholeMicroseconds) }
    // Not the system's generator: passing a value of no size, the thread sanitizer crashes (Swift 6.3).
    var random = SplitMix64(seed: .random(in: .min ... .max))
    var plan = RetryPlan(edges: edges.count, limits: options, now: now)
    while true {
      switch plan.next(now: now, random: &random) {
      case .giveUp(let error): throw error
      case .wait(let span):
        do {
          try await Task.sleep(for: .microseconds(span.microseconds))
        } catch {
          throw CallError(.tryAgain, "The request was cancelled.")
        }
      case .attempt(let edge, let timeout):
        var response: EdgeResponse?
        do {
          response = try await EdgeExchange.run(
            request, to: edges[edge], timeout: .microseconds(timeout.microseconds), trust,
            on: group.next())
        } catch EdgeFailure.tls(let problem) {
          plan.failed(problem)
        } catch {}
        if Task.isCancelled { throw CallError(.tryAgain, "The request was cancelled.") }
        if let value = try Self.decode(response, &plan, read) { return value }
      }
    }
  }

  /// - Returns: the decoded response; nil: the request is to be retried if there is time.
  /// - Throws: a final refusal.
  private static func decode<Value>(
    _ response: EdgeResponse?, _ plan: inout RetryPlan, _ read: ([UInt8]) -> Value?
  ) throws(CallError) -> Value? {
    if let response, response.status == 200 {
      if let value = read(response.body) { return value }
    } else if let response, let error = HTTPBodies.readError(response.body) {
      if plan.refused(error, status: response.status) { return nil }
      throw error
    }
    // Another body is that of a middlebox, such as the login page of a guest network.
    plan.failed()
    return nil
  }
}

extension Duration {
  fileprivate var wholeMicroseconds: Int64 {
    components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000
  }
}
