public import CallCore
public import CallWire
import NIOCore
import NIOPosix

/// A user's device, for apps: it connects to the cluster and stays connected, places and answers calls,
/// and reports what happens as a sequence of events.
///
/// ```swift
/// let device = CallDevice(configuration)
/// device.start()
/// for await event in device.events {
///   if case .call(let call, .invited) = event { _ = try await device.answer(call) }
/// }
/// ```
///
/// All methods may be called from any thread. Commands wait for their reply, over a reconnect if need
/// be. `docs/app.md` shows an app from its start to the end of a call.
public final class CallDevice: Sendable {
  /// The events of this device and its calls, in order. For one reader: a second one gets the end at
  /// once.
  public let events: Events
  private let driver: NIOLoopBoundBox<DeviceDriver>
  private let eventLoop: any EventLoop

  /// Makes a device that does nothing before `start`.
  ///
  /// - Parameters:
  ///   - configuration: the edges, the user's token, the device's id, and time limits.
  ///   - codec: the encoding of frames.
  ///   - trust: the authorities for edges at `wss://`.
  ///   - eventsMax: the most events that wait to be read. Policy at the limit: the oldest one that is
  ///     not about a call's beginning or end is dropped, and counted in `eventsDropped`.
  ///   - newToken: fetches a new token of this user from the app's server, when the present one is about
  ///     to expire or was refused. The session then continues. If it throws, or takes longer than the
  ///     configuration's `newTokenTimeout`, it is called again when a token is needed. nil: the session
  ///     ends with its token, with the event `refused`.
  public init(
    _ configuration: DeviceConfiguration, codec: DeviceCodec = .protobuf,
    trust: EdgeTrust = .system, eventsMax: Int = 256,
    newToken: (@Sendable () async throws -> String)? = nil
  ) {
    var configuration = configuration
    configuration.renewsToken = newToken != nil
    let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
    let buffer = EventBuffer<ClientEvent>(capacity: eventsMax) { $0.isImportant }
    self.eventLoop = eventLoop
    self.events = Events(buffer: buffer)
    self.driver = NIOLoopBoundBox.makeBoxSendingValue(
      DeviceDriver(configuration) {
        // No time of this loop is compared with the cluster's clock, so the anchor does not matter.
        DeviceHost(
          loop: NIODeviceLoop(eventLoop: eventLoop, wallClock: Timestamp(microseconds: 0)),
          network: NIODeviceNetwork(eventLoop: eventLoop, codec: codec, trust: trust),
          seed: UInt64.random(in: 0 ... .max))
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

  /// Connects, and stays connected until `stop`.
  public func start() { onLoop { $0.start() } }

  /// Takes note of a push about a call to this user: connects at once if there is no connection, and
  /// asks for the call's state.
  ///
  /// Exactly one of `.call(call, .invited)` and `.call(call, .stopped)` follows, unless the device knew
  /// of the call already. The cluster's answer also comes with `.attached`, as `forCall?.wakeAnswer`.
  /// - Parameter callee: the called user, from the push; nil: this device's user.
  public func woken(for call: CallID, callee: String? = nil) {
    onLoop { $0.woken(for: call, callee: callee ?? "") }
  }

  /// Detaches, closes the connection and ends the sequence of events. Commands that wait for a reply
  /// throw `tryAgain`. To connect again, make a new device.
  public func stop() {
    let buffer = events.buffer
    onLoop {
      $0.stop()
      buffer.finish()
    }
  }

  /// Events that were dropped because they were not read in time.
  public var eventsDropped: Int { events.buffer.dropped }

  // MARK: Sending commands

  func state(_ command: ClientCommand) async throws(CallError) -> CallState {
    if case .call(let state) = try await send(command) { return state }
    throw CallError(.internalError, "The reply is of another kind than expected.")
  }

  func send(
    _ call: CallID, _ command: @escaping @Sendable (CallAddress) -> ClientCommand
  ) async throws(CallError) -> ServerReply {
    try await reply { driver, completion in
      driver.submit(command(driver.machine.address(call)), completion)
    }
  }

  func send(_ command: ClientCommand) async throws(CallError) -> ServerReply {
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
