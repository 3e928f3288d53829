internal import CallCore
internal import CallMachine
internal import CallWire

/// The state that a device's lock protects: its driver, its calls, and who waits for replies.
final class DeviceCore {
  typealias Completion = @Sendable (Result<ServerReply, CallmeshError>) -> Void

  let events: Broadcast<Device.Event>
  /// Calls that are not over.
  var calls: [CallID: Call] = [:]
  /// The last call of this device that gave way to a crossing one.
  var gaveWay: Call?
  /// The call to which one of this device gave way, if the user has hung up. It may be still to come.
  private var refused: CallID?
  /// The same call when it has come. The app gets its end alone.
  private(set) var unseen: Call?
  var ongoing: [OngoingCall] = []
  var historyState: HistoryState?
  /// Credentials for TURN servers, as the edge gave them last.
  var relays: RelayCredentials?
  var user = ""
  var id: String
  private let options: DeviceOptions
  private let transport: any Transport
  private let loop: CoreLoop
  private(set) var network: CoreNetwork?
  private var driver: DeviceDriver?
  private var fetchToken: () -> Void = {}
  /// When the clock wakes the device.
  private var armedAt = Timestamp.distantFuture
  private var waiting: [UInt64: Waiting] = [:]
  /// The events of the machine that are not processed yet, in order.
  private var unprocessed: [ClientEvent] = []

  /// A command without a reply.
  struct Waiting {
    /// The call that the command was given to: the machine may know another one under the id by the time of the reply.
    var call: Call?
    var completion: Completion
  }

  init(_ options: DeviceOptions, _ transport: any Transport, _ clock: any DeviceClock) {
    (self.options, self.transport, id) = (options, transport, options.device)
    loop = CoreLoop(clock)
    events = Broadcast(capacity: options.eventsMax)
  }

  /// Called once, before anything else.
  func connectEngine(
    report: @escaping @Sendable (Int, SocketEvent) -> Void, fetchToken: @escaping () -> Void
  ) {
    let network = CoreNetwork(transport, options.encoding.codec, report: report)
    let loop = loop
    self.network = network
    self.fetchToken = fetchToken
    driver = DeviceDriver(options.configuration) {
      DeviceHost(loop: loop, network: network, seed: .random(in: 0 ... .max))
    } renewToken: { [unowned self] _ in
      self.fetchToken()
    } onEvent: { [unowned self] in
      unprocessed.append($0)
    }
  }

  /// How long it is until a time of the machine.
  func wait(until time: Timestamp) -> Duration { max(.zero, (time - loop.now).duration) }

  var machine: ClientMachine? { driver?.machine }

  var iceServers: [Device.IceServer] {
    guard let relays, let clusterTime, clusterTime < relays.expiresAt else { return [] }
    return [
      Device.IceServer(urls: relays.urls, username: relays.username, credential: relays.password)
    ]
  }

  var clusterTime: Timestamp? { driver?.machine.clusterTime(at: loop.now) }

  func start() { driver?.start() }

  /// Ends everything here. The readers of the device's events get the earlier events.
  func stop() {
    driver?.stop()
    endAll(CallmeshError(.stopped))
    (gaveWay, refused, unseen) = (nil, nil, nil)
    events.finish()
  }

  func probe() { driver?.probe() }

  /// - Parameter time: as `armed` said. An earlier one may have been set since, which sets the next.
  func fire(at time: Timestamp) {
    guard armedAt == time else { return }
    armedAt = .distantFuture
    loop.runDue()
  }

  func tokenCame(_ token: String) { driver?.tokenRenewed(token) }

  func tokenFailed(_ error: any Error) {
    let why = CallmeshError(.noToken, "No token was to be had: \(error)")
    events.send(.tokenFailed(why))
    driver?.tokenRenewed(nil)
  }

  func woken(for address: Address) {
    let isOwn = address.callee.hasBytes(of: user)
    driver?.woken(for: address.call, callee: isOwn ? "" : address.callee)
  }

  /// When the clock is to wake the device; nil: as before.
  func armed() -> Timestamp? {
    guard let next = loop.nextTimer, next < armedAt else { return nil }
    armedAt = next
    return next
  }

  /// The user has hung up, and a call goes on in place of the user's own: it ends when it comes.
  /// - Returns: it, if it is there. One that is declined here comes all the same if the cluster connects both devices
  ///   meanwhile.
  func refuse(_ survivor: CallID) -> Call? {
    refused = survivor
    return calls[survivor]
  }

  /// Ends a call that comes after it was refused.
  func refuse(_ call: Call, _ invite: Invite) {
    guard call.id == refused, invite.transferredBy == nil else { return }
    (refused, unseen) = (nil, call)
    // Ends with the reply.
    Task { try? await call.finish() }
  }

  // MARK: Commands

  func submit(_ command: ClientCommand, of call: Call?, _ completion: @escaping Completion) {
    do throws(CallmeshError) {
      try submit(command, Waiting(call: call, completion: completion))
    } catch {
      completion(.failure(error))
    }
  }

  /// - Throws: the completion is not called then.
  func submit(_ command: ClientCommand, _ waiting: Waiting) throws(CallmeshError) {
    guard let driver, driver.machine.state != .stopped else { throw CallmeshError(.stopped) }
    guard let request = driver.submit(command) else {
      throw CallmeshError(.rateLimited, "Too many commands wait.")
    }
    self.waiting[request] = waiting
  }

  /// Processes the output of the machine. Replies come last, so that a waiter sees what its reply has changed.
  func settle(_ engine: DeviceEngine) {
    while !unprocessed.isEmpty {
      var replies: [ClientEvent] = []
      for event in unprocessed.take() {
        switch event {
        case .replied, .gaveUp: replies.append(event)
        default: handle(event, engine)
        }
      }
      for reply in replies { settle(reply) }
    }
  }

  private func settle(_ event: ClientEvent) {
    switch event {
    case .replied(let request, let command, let reply):
      let waiting = waiting.removeValue(forKey: request)
      let call = waiting?.call ?? command.address.flatMap { calls[$0.call] }
      if let call { publish(call) { $0.replied(command, reply, machine?.calls[call.id]) } }
      if case .error(let error) = reply {
        waiting?.completion(.failure(CallmeshError(error)))
      } else {
        waiting?.completion(.success(reply))
      }
    case .gaveUp(let request, let command):
      let waiting = waiting.removeValue(forKey: request)
      let call = waiting?.call ?? command.address.flatMap { calls[$0.call] }
      let error =
        machine?.isAttached ?? false
        ? CallmeshError(.tryAgain, "No reply came.")
        : CallmeshError(.notAttached, "There was no connection.")
      if let call { publish(call) { $0.gaveUp(command, error) } }
      waiting?.completion(.failure(error))
    default: break
    }
  }

  /// No command will be answered, and no call goes on here.
  func endAll(_ error: CallmeshError) {
    for call in calls.values {
      publish(call) { $0.ended(Stop(reason: .failed), isLocal: true, error: error) }
    }
    let completions = waiting.values.map(\.completion)
    waiting.removeAll()
    for completion in completions { completion(.failure(error)) }
  }
}

extension Array {
  /// Empties the array. Returns what it had.
  fileprivate mutating func take() -> [Element] {
    defer { removeAll() }
    return self
  }
}
