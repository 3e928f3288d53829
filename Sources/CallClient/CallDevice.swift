public import CallCore
public import CallWire
import NIOCore
import NIOPosix
import Synchronization

/// A device, for apps: connects and stays connected, places and answers calls, and tells what
/// happens as a sequence of events.
///
///     let device = CallDevice(configuration)
///     device.start()
///     for await event in device.events {
///       if case .call(let call, .invited) = event { try await device.answer(call) }
///     }
///
/// Commands wait for their reply, over a reconnect if need be.
public final class CallDevice: Sendable {
  public let events: Events
  private let driver: NIOLoopBoundBox<DeviceDriver>
  private let eventLoop: any EventLoop

  /// - Parameters:
  ///   - trust: whom to believe to be an edge, where edges are at `wss://`.
  ///   - eventsMax: events that wait to be read. When more come, the oldest that is not
  ///     about a call's beginning or end goes first; the number is in `eventsDropped`.
  ///   - newToken: gets a new token of this user from the app's server. Asked when the one that there
  ///     is is about to expire, or was refused: the device then stays, or comes back with the new one.
  ///     One that throws, or takes longer than `newTokenTimeout`, is asked again when a token is needed.
  ///     nil: the device is refused then.
  public init(
    _ configuration: ClientMachine.Configuration, codec: DeviceCodec = .protobuf,
    trust: EdgeTrust = .system, eventsMax: Int = 256,
    newToken: (@Sendable () async throws -> String)? = nil
  ) {
    var configuration = configuration
    configuration.renewsToken = newToken != nil
    let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
    let buffer = EventBuffer(capacity: eventsMax)
    self.eventLoop = eventLoop
    self.events = Events(buffer: buffer)
    self.driver = NIOLoopBoundBox.makeBoxSendingValue(
      DeviceDriver(configuration, seed: UInt64.random(in: 0 ... .max)) {
        // Nothing here is compared with the cluster's clock, so the anchor does not matter.
        (
          NIODeviceLoop(eventLoop: eventLoop, wallClock: Timestamp(microseconds: 0)),
          NIODeviceNetwork(eventLoop: eventLoop, codec: codec, trust: trust)
        )
      } renewToken: { driver in
        guard let newToken else { return }
        let driver = NIOLoopBound(driver, eventLoop: eventLoop)
        Task {
          let token = try? await newToken()
          eventLoop.execute { driver.value.tokenRenewed(token) }
        }
      } onEvent: {
        buffer.append($0)
      }, eventLoop: eventLoop)
  }

  /// Connects, and keeps connected until `stop`.
  public func start() { onLoop { $0.start() } }

  /// A push spoke of a call to this user: connects at once, where it is not connected, and asks what
  /// became of the call. Either `.call(call, .invited)` or `.call(call, .stopped)` follows, unless
  /// the device heard of the call before; `.attached` holds the cluster's answer as well, as
  /// `forCall?.wakeAnswer`.
  public func woken(for call: CallID) { onLoop { $0.woken(for: call) } }

  /// Leaves, and ends the sequence of events.
  public func stop() {
    let buffer = events.buffer
    onLoop {
      $0.stop()
      buffer.finish()
    }
  }

  /// Events that nobody read in time.
  public var eventsDropped: Int { events.buffer.dropped }

  // MARK: Commands

  /// Stores the device's push tokens, its name and what it can do. To be said with each start of the
  /// app, and when a token changes. Should another device register one of its tokens, a notice says
  /// `tokenTaken`.
  /// - Returns: what stands.
  /// - Throws: `CallError`, as do all commands: the cluster's refusal, `tryAgain` where no reply
  ///   came, `rateLimited` where too many commands wait.
  @discardableResult
  public func register(
    _ request: RegistrationRequest
  ) async throws(CallError) -> RegisteredInfo {
    if case .registered(let info) = try await send(.register(request)) { return info }
    throw CallError(.internalError, "The reply is of another kind than expected.")
  }

  /// Forgets what `register` stored; nil: of this device. It rings on while it is attached.
  public func unregister(_ device: DeviceID? = nil) async throws(CallError) {
    _ = try await send(.unregister(device))
  }

  /// Calls a user. What becomes of it comes as events; a call that could not begin to ring is ended
  /// in the state returned.
  @discardableResult
  public func place(_ request: PlaceRequest, to callee: String) async throws(CallError) -> CallState
  {
    try await state(.place(CallAddress(callee: callee, call: request.call), request))
  }

  /// The user is alerted.
  public func alerting(_ call: CallID) async throws(CallError) {
    _ = try await send(call) { .call($0, .alerting) }
  }

  /// Takes the call.
  /// - Returns: whether this device won it.
  public func answer(_ call: CallID, description: String = "") async throws(CallError) -> Bool {
    switch try await send(call, { .call($0, .answer(description: description)) }) {
    case .answer(let won, _): won
    case .error, .done, .attached, .registered, .call, .calls: false
    }
  }

  public func decline(_ call: CallID, _ scope: DeclineScope = .everywhere) async throws(CallError) {
    _ = try await send(call) { .call($0, .decline(scope)) }
  }

  /// This device is busy; the others ring on.
  public func busy(_ call: CallID) async throws(CallError) {
    _ = try await send(call) { .call($0, .busy) }
  }

  /// Gives a call up that nobody has answered.
  public func cancel(_ call: CallID) async throws(CallError) {
    _ = try await send(call) { .call($0, .cancel) }
  }

  /// Media flow.
  public func connected(_ call: CallID) async throws(CallError) {
    _ = try await send(call) { .call($0, .connected) }
  }

  public func hangUp(_ call: CallID) async throws(CallError) {
    _ = try await send(call) { .call($0, .hangUp) }
  }

  /// Sends the other side a description or candidate.
  public func signal(_ call: CallID, _ kind: SignalKind, _ body: String) async throws(CallError) {
    _ = try await send(call) { .call($0, .signal(kind, body: body)) }
  }

  /// Asks what became of a call. An empty callee means this device's own user.
  public func query(_ call: CallID, callee: String = "") async throws(CallError) -> CallState {
    try await state(.call(CallAddress(callee: callee, call: call), .query))
  }

  /// Asks for the live calls that this device placed, and for those to its user. An app that was
  /// started anew learns so what it left behind: it resumes a call, or ends it (`end`).
  /// The cluster answers once in 10 s: a second question waits for that.
  /// - Throws: `CallError`, as do all commands.
  public func calls() async throws(CallError) -> LiveCalls {
    if case .calls(let live) = try await send(.calls) { return live }
    throw CallError(.internalError, "The reply is of another kind than expected.")
  }

  /// Takes up a call that this device placed in a former run of the app: what becomes of it comes as
  /// events.
  @discardableResult
  public func resume(_ call: CallID, callee: String) async throws(CallError) -> CallState {
    try await state(.call(CallAddress(callee: callee, call: call), .resume))
  }

  /// Ends a call that this device placed in a former run of the app, and that it does not resume.
  @discardableResult
  public func end(_ call: CallID, callee: String) async throws(CallError) -> CallState {
    try await state(.call(CallAddress(callee: callee, call: call), .hangUp))
  }

  // MARK: Inside

  private func state(_ command: ClientCommand) async throws(CallError) -> CallState {
    if case .call(let state) = try await send(command) { return state }
    throw CallError(.internalError, "The reply is of another kind than expected.")
  }

  private func send(
    _ call: CallID, _ command: @escaping @Sendable (CallAddress) -> ClientCommand
  ) async throws(CallError) -> ServerReply {
    try await reply { driver, completion in
      driver.submit(command(driver.machine.address(call)), completion)
    }
  }

  private func send(_ command: ClientCommand) async throws(CallError) -> ServerReply {
    try await reply { driver, completion in driver.submit(command, completion) }
  }

  private func reply(
    _ submit: @escaping @Sendable (DeviceDriver, @escaping DeviceDriver.Completion) -> Void
  ) async throws(CallError) -> ServerReply {
    let result = await withCheckedContinuation { continuation in
      onLoop { submit($0) { continuation.resume(returning: $0) } }
    }
    let reply = try result.get()
    if case .error(let error) = reply { throw error }
    return reply
  }

  private func onLoop(_ action: @escaping @Sendable (DeviceDriver) -> Void) {
    let driver = driver
    eventLoop.execute { action(driver.value) }
  }
}

extension CallDevice {
  /// What happens, in order. For one reader.
  public struct Events: AsyncSequence, Sendable {
    public typealias Element = ClientEvent
    public typealias Failure = Never
    let buffer: EventBuffer

    public struct AsyncIterator: AsyncIteratorProtocol {
      let buffer: EventBuffer

      public mutating func next() async -> ClientEvent? { await buffer.next() }
      public mutating func next(isolation: isolated (any Actor)?) async -> ClientEvent? {
        await buffer.next()
      }
    }

    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(buffer: buffer) }
  }
}

/// Events on their way to the app. Bounded: when full, the oldest of small importance goes.
final class EventBuffer: Sendable {
  private struct State {
    var events: [ClientEvent] = []
    var waiter: CheckedContinuation<ClientEvent?, Never>?
    var isFinished = false
    var dropped = 0
  }

  private let capacity: Int
  private let state = Mutex(State())

  init(capacity: Int) { self.capacity = max(1, capacity) }

  var dropped: Int { state.withLock { $0.dropped } }

  func append(_ event: ClientEvent) {
    let waiter = state.withLock { state -> CheckedContinuation<ClientEvent?, Never>? in
      if let waiter = state.waiter.take() { return waiter }
      if state.events.count >= capacity {
        state.events.remove(at: state.events.firstIndex { !$0.isImportant } ?? 0)
        state.dropped += 1
      }
      state.events.append(event)
      return nil
    }
    waiter?.resume(returning: event)
  }

  func finish() {
    let waiter = state.withLock {
      $0.isFinished = true
      return $0.waiter.take()
    }
    waiter?.resume(returning: nil)
  }

  func next() async -> ClientEvent? {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let now: ClientEvent?? = state.withLock { state in
          if !state.events.isEmpty { return .some(state.events.removeFirst()) }
          // A second reader would leave the first waiting for ever: it gets the end.
          if state.isFinished || state.waiter != nil || Task.isCancelled { return .some(nil) }
          state.waiter = continuation
          return nil
        }
        if let now { continuation.resume(returning: now) }
      }
    } onCancel: {
      state.withLock { $0.waiter.take() }?.resume(returning: nil)
    }
  }
}

extension ClientEvent {
  /// What an app must not miss.
  fileprivate var isImportant: Bool {
    switch self {
    case .call(_, .invited), .call(_, .answered), .call(_, .won), .call(_, .stopped), .refused: true
    // Else the app does not know that it can no longer be woken.
    case .notice(let notice): notice.kind == .tokenTaken || notice.kind == .deviceRemoved
    case .call(_, .ringing), .call(_, .signal), .attached, .detached, .notTrusted,
      .replied, .gaveUp:
      false
    }
  }
}
