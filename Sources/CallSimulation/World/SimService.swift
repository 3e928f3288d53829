internal import CallCore

/// A program of the product that runs as a process of the world.
package protocol SimProgram: Sendable {
  /// Runs until the process is cancelled or has shut down.
  func run() async throws
  /// Begins an orderly shutdown, at the end of which `run` returns.
  func beginShutdown()
}

/// The processes of one name, one after the other: they crash, freeze, shut down, and are started again.
package class SimService<Program: SimProgram>: SimActor, @unchecked Sendable {
  final class Process: @unchecked Sendable {
    let node: SimNode
    let program: Program
    var task: Task<Void, Never>?
    var isLeaving = false

    init(node: SimNode, program: Program) {
      self.node = node
      self.program = program
    }
  }

  package let name: String
  package let world: SimWorld
  /// The prefix of the names of this service's faults, in the counts.
  private let faultPrefix: String
  var current: Process?
  /// Killed processes whose tasks have not ended yet.
  private var ghosts: [Process] = []

  init(name: String, world: SimWorld, faultPrefix: String) {
    self.name = name
    self.world = world
    self.faultPrefix = faultPrefix
  }

  /// The present process's node; nil: there is none.
  package var node: SimNode? { current?.node }
  package var isRunning: Bool { current != nil }
  package var isFrozen: Bool { current?.node.state == .frozen }
  package var isLeaving: Bool { current?.isLeaving ?? false }
  /// The number of processes whose tasks have not ended although they were killed. It must be 0 after the
  /// world has run on for a moment.
  package var ghostCount: Int { ghosts.count }

  /// Starts a new process where there is none.
  package func start() {}

  /// No fault is to last: thaws the process, or starts one. One that shuts down ends first, however long that takes.
  package func recover() {
    thaw()
    start()
    if isLeaving { later(.seconds(1)) { $0.recover() } }
  }

  func launch(_ program: Program, on node: SimNode) {
    let process = Process(node: node, program: program)
    current = process
    world.incident(name, "starts")
    process.task = node.start { [weak self] in
      var failure: (any Error)?
      do { try await program.run() } catch { failure = error }
      self?.ended(process, failure)
    }
  }

  package func crash() {
    guard let process = current else { return }
    current = nil
    world.incident(name, "crashes")
    world.count(faultPrefix + "crash")
    kill(process)
  }

  func kill(_ process: Process) {
    if process.task != nil { ghosts.append(process) }
    process.node.kill()
    process.task?.cancel()
  }

  /// Stops the process where it stands, as a debugger would, while time goes on.
  package func freeze() {
    guard let process = current, process.node.state == .running else { return }
    world.incident(name, "freezes")
    world.count(faultPrefix + "freeze")
    process.node.freeze()
  }

  func freeze(for span: Span) {
    let node = node
    freeze()
    later(span) { if $0.node === node { $0.thaw() } }
  }

  package func thaw() {
    guard isFrozen else { return }
    world.incident(name, "thaws")
    current?.node.thaw()
  }

  package func shutDown() {
    guard let process = current, !process.isLeaving else { return }
    world.incident(name, "shuts down")
    world.count(faultPrefix + "shutdown")
    process.isLeaving = true
    process.program.beginShutdown()
  }

  private func ended(_ process: Process, _ failure: (any Error)?) {
    process.task = nil
    ghosts.removeAll { $0 === process }
    guard process.node.state != .dead else { return }
    world.incident(name, failure.map { "ended: \($0)" } ?? "ended")
    // Its last messages still leave.
    world.schedule(after: .milliseconds(20)) { process.node.kill() }
    if current === process { current = nil }
    didEnd(process, failure)
  }

  func didEnd(_ process: Process, _ failure: (any Error)?) {}

  /// Kills the process at the end of the world.
  package func destroy() {
    if let process = current { kill(process) }
    current = nil
  }
}
