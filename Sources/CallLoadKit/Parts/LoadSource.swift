/// The devices of a run: in this process, or in several others.
package protocol LoadSource: Sendable {
  var progress: LoadProgress { get }
  /// Processes of the devices beside this one.
  var processIDs: [Int32] { get }

  /// Connects and registers all devices. A device that could not is counted and raises no error.
  /// - Throws: ``SetupError`` where no device could connect.
  func connect() async throws

  /// Runs one stage of load on the connected devices, and judges it once it has settled.
  /// - Throws: ``SetupError`` without connected devices.
  func load(rate: Double, duration: Double) async throws -> RunResult

  /// Notifies the judge of the progress of a fault; returns once it has taken note.
  func note(_ step: FaultStep) async

  func disconnect() async

  /// Ends a stage or a ramp early; `load` then reports the results so far.
  func stop()
}
