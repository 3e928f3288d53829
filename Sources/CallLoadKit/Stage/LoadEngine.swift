import CallClient
import CallCore
package import CallTestKit
import NIOCore
import NIOPosix
import Synchronization

/// Connects devices, lets them call each other, and judges what each received, on its own event loop.
package final class LoadEngine: Sendable {
  let options: LoadOptions
  package let progress: LoadProgress
  private let state = Mutex(State())

  private struct Running: Sendable {
    let group: MultiThreadedEventLoopGroup
    let loop: any EventLoop
    let fleet: NIOLoopBound<DeviceFleet>
    let runner: PushActionRunner?
    let server: AppServer?
  }

  private struct State {
    var running: Running?
    var isStopped = false
  }

  private var running: Running? { state.withLock { $0.running } }

  package init(options: LoadOptions, progress: LoadProgress) {
    self.options = options
    self.progress = progress
  }

  /// Connects and registers all devices. A device that could not is counted and raises no error.
  /// - Throws: ``SetupError`` where no device could connect; what minting a token threw.
  package func connect() async throws {
    let running = try await start()
    try await withCheckedThrowingContinuation {
      (continuation: CheckedContinuation<Void, any Error>) in
      running.loop.execute {
        do {
          try running.fleet.value.connect { continuation.resume() }
        } catch {
          continuation.resume(throwing: error)
        }
      }
    }
    let setup = try await running.loop.submit { running.fleet.value.setupResult }.get()
    if setup.devicesConnected == 0, !setup.interrupted {
      let causes = setup.failures.greatestFirst.map { "\($0.key) (\($0.value))" }
      throw SetupError("no device could connect: \(causes.joined(separator: ", "))")
    }
  }

  /// Runs one stage of load on the connected devices, and judges it once it has settled.
  /// - Parameter rate: of all slices.
  /// - Throws: ``SetupError`` without connected devices.
  package func load(rate: Double, duration: Double) async throws -> RunResult {
    guard let running else {
      throw SetupError("load needs connected devices: call connect first")
    }
    return await withCheckedContinuation { continuation in
      running.loop.execute {
        running.fleet.value.load(rate: rate, duration: duration) {
          continuation.resume(returning: $0)
        }
      }
    }
  }

  /// Notifies the judge of the progress of a fault; returns once it has taken note.
  package func note(_ step: FaultStep) async {
    guard let running else { return }
    try? await running.loop.submit { running.fleet.value.note(step) }.get()
  }

  /// A push reached the provider. From any thread.
  package func arrived(_ push: APNsPush) {
    guard let running else { return }
    running.loop.execute { running.fleet.value.pushArrived(push) }
  }

  package func disconnect() async {
    guard let running = state.withLock({ $0.running.take() }) else { return }
    running.runner?.close()
    running.server?.close()
    await withCheckedContinuation { continuation in
      running.loop.execute {
        running.fleet.value.disconnect { continuation.resume() }
      }
    }
    try? await running.group.shutdownGracefully()
  }

  /// Ends a stage or a ramp early; `load` then reports the results so far.
  package func stop() {
    let running = state.withLock {
      $0.isStopped = true
      return $0.running
    }
    running?.loop.execute { running?.fleet.value.interrupt() }
  }

  private func start() async throws -> Running {
    if let running { return running }
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let eventLoop = group.next()
    let runner = options.sleep.map { _ in
      PushActionRunner(edges: options.edges, trust: options.trust)
    }
    let server = options.mintServerToken.map {
      AppServer(edges: options.edges, trust: options.trust, mintToken: $0)
    }
    let fleet = try await eventLoop.submit { [options, progress] in
      let fleet = DeviceFleet(
        options: options, progress: progress,
        loop: NIODeviceLoop(eventLoop: eventLoop, wallClock: .wallClock),
        network: NIODeviceNetwork(
          eventLoop: eventLoop, codec: options.codec, trust: options.trust, sources: Self.sources),
        nonce: UInt64.random(in: 0 ... .max))
      fleet.setGroup = server.map { Self.making($0, on: eventLoop) }
      fleet.actByPush = runner.map { Self.acting($0, on: eventLoop) }
      if options.isDisturbed { fleet.processors = ProcessorMeter() }
      return NIOLoopBound(fleet, eventLoop: eventLoop)
    }.get()
    let running = Running(
      group: group, loop: eventLoop, fleet: fleet, runner: runner, server: server)
    let isStopped = state.withLock {
      $0.running = running
      return $0.isStopped
    }
    if isStopped { eventLoop.execute { fleet.value.interrupt() } }
    return running
  }

  /// Devices of a local cluster come from 127.1.0.0/16, ten to an address where there are 10,000.
  private static let sources = SourceAddresses(second: 1, count: 1_000)

  private static func making(
    _ server: AppServer, on loop: any EventLoop
  ) -> (String, CallGroup, @escaping (CallError?) -> Void) -> Void {
    { name, group, completion in
      let completion = NIOLoopBound(completion, eventLoop: loop)
      server.make(name, group) { error in loop.execute { completion.value(error) } }
    }
  }

  private static func acting(
    _ runner: PushActionRunner, on loop: any EventLoop
  ) -> (PushAction, @escaping (Result<CallState, CallError>) -> Void) -> Void {
    { action, completion in
      let completion = NIOLoopBound(completion, eventLoop: loop)
      runner.perform(action) { result in loop.execute { completion.value(result) } }
    }
  }
}
