package import CallCore
package import CallWire

/// Performs the actions of one device's machine on a loop: an event loop, or a simulated one.
package final class DeviceDriver: DeviceLinkDelegate {
  package typealias Completion = @Sendable (Result<ServerReply, CallError>) -> Void

  package private(set) var machine: ClientMachine
  private let connect: () -> (any DeviceLoop, any DeviceNetwork)
  private let onEvent: (ClientEvent) -> Void
  private let renewToken: (DeviceDriver) -> Void
  private var network: (any DeviceNetwork)?
  private var loop: (any DeviceLoop)?
  private var link: (any DeviceLink)?
  /// While the device moves: the connection to the other edge.
  private var next: NextLink?
  /// Forwards the events of a current connection that was once the next one.
  private var relay: NextLink?
  /// For the jitter of waits, which need not be secret.
  private var random: SplitMix64
  private var completions: [UInt64: Completion] = [:]
  private var armedAt = Timestamp.distantFuture
  private var isReading = false

  /// - Parameters:
  ///   - seed: for the jitter of waits.
  ///   - connect: returns the loop and the network; called on that loop at the first start.
  ///   - renewToken: gets a new token and calls `tokenRenewed`, if the configuration `renewsToken`.
  ///   - onEvent: receives every event, on the loop.
  package init(
    _ configuration: ClientMachine.Configuration, seed: UInt64,
    connect: @escaping () -> (any DeviceLoop, any DeviceNetwork),
    renewToken: @escaping (DeviceDriver) -> Void = { _ in },
    onEvent: @escaping (ClientEvent) -> Void
  ) {
    self.machine = ClientMachine(configuration)
    self.connect = connect
    self.renewToken = renewToken
    self.onEvent = onEvent
    self.random = SplitMix64(seed: seed)
  }

  package func start() {
    if loop == nil { (loop, network) = connect() }
    run { $0.start(now: $1, into: &$2) }
  }

  package func woken(for call: CallID) {
    if loop == nil { (loop, network) = connect() }
    run { $0.woken(for: call, now: $1, into: &$2) }
  }

  /// Takes a new token; nil: none was available.
  package func tokenRenewed(_ token: String?) {
    run { $0.tokenRenewed(token, now: $1, into: &$2) }
  }

  package func stop() {
    run { machine, _, actions in machine.stop(into: &actions) }
    for completion in completions.values {
      completion(.failure(CallError(.tryAgain, "The device was stopped.")))
    }
    completions.removeAll()
  }

  package func submit(_ command: ClientCommand, _ completion: @escaping Completion) {
    var request: UInt64?
    guard loop != nil, machine.state != .stopped else {
      return completion(.failure(CallError(.notAttached, "The device is stopped.")))
    }
    run { machine, now, actions in
      request = machine.submit(command, now: now, into: &actions)
      // Before any action is performed, so that no reply can come too early.
      if let request { completions[request] = completion }
    }
    if request == nil { completion(.failure(CallError(.rateLimited, "Too many commands wait."))) }
  }

  // MARK: DeviceLinkDelegate

  package func linkOpened() {
    isReading = true
    run { $0.opened(now: $1, into: &$2) }
  }

  package func linkReceived(_ frame: ServerFrame) {
    isReading = true
    run { [self] in $0.received(frame, now: $1, random: &random, into: &$2) }
  }

  package func linkReadCompleted() {
    run { machine, now, actions in
      machine.heard(now: now)
      machine.readCompleted(now: now, into: &actions)
    }
    isReading = false
    link?.flush()
  }

  package func linkClosed(_ cause: LinkClosed) {
    link = nil
    isReading = false
    if case .notTrusted(let problem) = cause { onEvent(.notTrusted(problem)) }
    run { [self] in $0.closed(now: $1, random: &random, into: &$2) }
  }

  // MARK: The next connection

  private func connectNext(to edge: String) {
    next?.close(abruptly: true)
    let opened = NextLink(owner: self)
    next = opened
    opened.link = network?.connect(to: edge, delegate: opened)
  }

  private func switchOver() {
    link?.flush()
    link?.close(abruptly: false)
    relay = next
    link = next?.link
    relay?.isCurrent = true
    next = nil
  }

  // MARK: Performing actions

  private func run(
    _ body: (inout ClientMachine, Timestamp, inout [ClientMachine.Action]) -> Void
  ) {
    guard let loop else { return }
    var actions: [ClientMachine.Action] = []
    body(&machine, loop.now, &actions)
    for action in actions { perform(action) }
    if !isReading { link?.flush() }
    next?.link?.flush()
    arm()
  }

  private func perform(_ action: ClientMachine.Action) {
    switch action {
    case .connect(let edge):
      link?.close(abruptly: true)
      isReading = false
      link = network?.connect(to: machine.configuration.edges[edge], delegate: self)
    case .send(let frame): link?.send(frame)
    case .close:
      link?.flush()
      link?.close(abruptly: false)
      link = nil
      isReading = false
    case .connectNext(let edge): connectNext(to: machine.configuration.edges[edge])
    case .sendNext(let frame): next?.link?.send(frame)
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
    switch event {
    case .replied(let request, _, let reply):
      completions.removeValue(forKey: request)?(.success(reply))
    case .gaveUp(let request, _):
      completions.removeValue(forKey: request)?(.failure(CallError(.tryAgain)))
    case .refused(let error):
      for completion in completions.values { completion(.failure(error)) }
      completions.removeAll()
    case .attached, .detached, .notTrusted, .call, .notice: break
    }
  }

  /// One timer for the earliest deadline. A timer that finds nothing due does no harm.
  private func arm() {
    guard let loop, let deadline = machine.nextDeadline, deadline < armedAt else { return }
    armedAt = deadline
    loop.schedule(at: deadline) { [weak self] in
      guard let self else { return }
      armedAt = .distantFuture
      run { [self] in $0.fire(now: $1, random: &random, into: &$2) }
    }
  }
}

extension DeviceDriver: NextLinkOwner {
  package func nextOpened() { run { $0.opened(.next, now: $1, into: &$2) } }

  package func nextReceived(_ frame: ServerFrame) {
    run { [self] in $0.received(frame, on: .next, now: $1, random: &random, into: &$2) }
  }

  package func nextClosed(_ cause: LinkClosed) {
    next = nil
    if case .notTrusted(let problem) = cause { onEvent(.notTrusted(problem)) }
    run { [self] in $0.closed(.next, now: $1, random: &random, into: &$2) }
  }
}
