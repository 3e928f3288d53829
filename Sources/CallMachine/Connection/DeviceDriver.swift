package import CallCore
package import CallWire

/// Performs the actions of one device's machine on the loop of a ``DeviceHost``: an event loop, or a simulated one.
package final class DeviceDriver {
  package typealias Completion = @Sendable (Result<ServerReply, CallError>) -> Void

  package private(set) var machine: ClientMachine
  /// The edge that the device is, or was last, connected to: its place in the configuration's `edges`, or
  /// their number if it is none of them.
  package private(set) var edge = 0
  /// The device stays away until ``resume()`` or ``woken(for:)``.
  package private(set) var isSuspended = false
  /// Sees every frame. Not needed to use the device.
  package weak var observer: (any DeviceObserver)?
  private let makeHost: () -> DeviceHost
  private let onEvent: (ClientEvent) -> Void
  private let renewToken: (DeviceDriver) -> Void
  private var host: DeviceHost?
  private var current: DriverLink?
  /// While the device moves: the connection to the other edge.
  private var next: DriverLink?
  private var completions: [UInt64: Completion] = [:]
  /// When the timer of the next deadline, or of acknowledgements, fires.
  private var armedAt = Timestamp.distantFuture
  /// Frames are being read: what is sent goes out at the end of the burst.
  private var isReading = false
  /// The host looks at the machine's deadlines at the next tick.
  var isWatched = false

  /// - Parameters:
  ///   - host: called once, on the loop, before the device does anything.
  ///   - renewToken: gets a new token and calls ``tokenRenewed(_:)``, if the configuration `renewsToken`.
  ///   - onEvent: receives every event, on the loop.
  package init(
    _ configuration: ClientMachine.Configuration, host: @escaping () -> DeviceHost,
    renewToken: @escaping (DeviceDriver) -> Void = { _ in },
    onEvent: @escaping (ClientEvent) -> Void
  ) {
    self.machine = ClientMachine(configuration)
    self.makeHost = host
    self.onEvent = onEvent
    self.renewToken = renewToken
  }

  package func start() {
    if host == nil { host = makeHost() }
    run { $0.start(&$1) }
  }

  package func woken(for call: CallID, callee: String = "") {
    if host == nil { host = makeHost() }
    isSuspended = false
    run { $0.woken(for: call, callee: callee, &$1) }
  }

  /// Takes a new token; nil: none was available.
  package func tokenRenewed(_ token: String?) {
    run { $0.tokenRenewed(token, &$1) }
  }

  package func stop() {
    run { $0.stop(&$1) }
    for completion in completions.values {
      completion(.failure(CallError(.tryAgain, "The device was stopped.")))
    }
    completions.removeAll()
  }

  /// Breaks the connection without a close frame and stays away, as a phone that lost its network does.
  package func suspend() {
    isSuspended = true
    drop(abruptly: true)
    run { $0.closed(&$1) }
  }

  /// Ends ``suspend()`` and connects at once.
  package func resume() {
    isSuspended = false
    run { $0.reconnectNow(&$1) }
  }

  /// The app came to the foreground, or the network changed.
  package func probe() { run { $0.probe(&$1) } }

  /// - Returns: the request's id, by which events name it; nil where too many commands wait.
  package func submit(_ command: ClientCommand) -> UInt64? {
    var request: UInt64?
    run { request = $0.submit(command, &$1) }
    return request
  }

  package func submit(_ command: ClientCommand, _ completion: @escaping Completion) {
    var request: UInt64?
    guard host != nil, machine.state != .stopped else {
      return completion(.failure(CallError(.notAttached, "The device is stopped.")))
    }
    run { machine, turn in
      request = machine.submit(command, &turn)
      // Before any action is performed, so that no reply can come too early.
      if let request { completions[request] = completion }
    }
    if request == nil { completion(.failure(CallError(.rateLimited, "Too many commands wait."))) }
  }

  // MARK: Connections

  func opened(on side: ClientMachine.Link) {
    if side == .current { isReading = true }
    run { $0.opened(on: side, &$1) }
  }

  func received(_ frame: ServerFrame, on side: ClientMachine.Link) {
    if side == .current { isReading = true }
    observer?.received(frame)
    run { $0.received(frame, on: side, &$1) }
    observer?.processed(frame)
  }

  /// The current connection has nothing more to read for now.
  func readCompleted() {
    run { machine, turn in
      machine.noteContact(now: turn.now)
      machine.readCompleted(&turn)
    }
    isReading = false
    current?.link?.flush()
  }

  func closed(on side: ClientMachine.Link, _ cause: LinkClosed) {
    switch side {
    case .current:
      isReading = false
      current = nil
    case .next: next = nil
    }
    observer?.closed(side, cause)
    if case .notTrusted(let problem) = cause { onEvent(.notTrusted(problem)) }
    var code: UInt16?
    if case .closedByPeer(let said) = cause { code = said }
    run { $0.closed(on: side, code: code, &$1) }
  }

  private func connect(to edge: Int, as side: ClientMachine.Link, _ host: DeviceHost) {
    let begun = DriverLink(driver: self, side: side, edge: edge)
    if side == .current { current = begun } else { next = begun }
    begun.link = host.network.connect(to: machine.address(ofEdge: edge), delegate: begun)
  }

  /// Closes the current connection.
  private func drop(abruptly: Bool) {
    current?.close(abruptly: abruptly)
    current = nil
    isReading = false
  }

  private func switchOver() {
    current?.close(abruptly: false)
    current = next
    next = nil
    current?.side = .current
    edge = current?.edge ?? edge
  }

  // MARK: Performing actions

  /// Does what is due by the machine's deadlines.
  package func fire() { run { $0.fire(&$1) } }

  private func run(_ body: (inout ClientMachine, inout ClientMachine.Turn) -> Void) {
    guard let host else { return }
    // An event's handler may submit a command, which gets a buffer of its own.
    var turn = ClientMachine.Turn(
      now: host.loop.now, random: host.random, actions: host.buffers.popLast() ?? [])
    body(&machine, &turn)
    host.random = turn.random
    for action in turn.actions { perform(action, host) }
    turn.actions.removeAll(keepingCapacity: true)
    host.buffers.append(turn.actions)
    if !isReading { current?.link?.flush() }
    next?.link?.flush()
    arm(host)
  }

  private func perform(_ action: ClientMachine.Action, _ host: DeviceHost) {
    switch action {
    case .connect(let edge):
      drop(abruptly: true)
      self.edge = edge
      connect(to: edge, as: .current, host)
    case .send(let frame):
      observer?.sending(frame)
      current?.link?.send(frame)
    case .close: drop(abruptly: false)
    case .connectNext(let edge):
      next?.close(abruptly: true)
      connect(to: edge, as: .next, host)
    case .sendNext(let frame):
      observer?.sending(frame)
      next?.link?.send(frame)
    case .closeNext:
      next?.close(abruptly: false)
      next = nil
    case .switchOver: switchOver()
    case .renewToken: renewToken(self)
    case .event(let event):
      settle(event)
      onEvent(event)
    }
  }

  private func settle(_ event: ClientEvent) {
    guard !completions.isEmpty else { return }
    switch event {
    case .replied(let request, _, let reply):
      completions.removeValue(forKey: request)?(.success(reply))
    case .gaveUp(let request, _):
      completions.removeValue(forKey: request)?(.failure(CallError(.tryAgain)))
    case .refused(let error):
      for completion in completions.values { completion(.failure(error)) }
      completions.removeAll()
    case .attached, .detached, .notTrusted, .call, .ongoing, .history, .relays, .notice: break
    }
  }

  /// One timer for the earliest deadline. One in whose place an earlier one was set does nothing: that one sets the next.
  private func arm(_ host: DeviceHost) {
    var deadline = machine.nextDeadline
    if host.ticks {
      watch(host)
      // Acknowledgements must not wait for the tick after the next.
      deadline = machine.ackDeadline
    }
    guard let deadline, deadline < armedAt else { return }
    armedAt = deadline
    host.loop.schedule(at: deadline) { [weak self] in
      guard let self, armedAt == deadline else { return }
      armedAt = .distantFuture
      // The acknowledgements may have been sent with a command, and others have been added since.
      if host.ticks, (machine.ackDeadline ?? .distantFuture) > host.loop.now { return arm(host) }
      fire()
    }
  }

  private func watch(_ host: DeviceHost) {
    guard !isWatched,
      machine.pendingCount > 0 || machine.isMoving
        || machine.state != .attached && machine.state != .stopped
    else { return }
    isWatched = true
    host.watched.append(self)
  }

  /// Fires what is due at a tick; watches on where the machine still waits for something.
  package func fireIfDue(at now: Timestamp) {
    if !isSuspended, let deadline = machine.nextDeadline, deadline <= now {
      fire()
    } else if let host {
      watch(host)
    }
  }
}
