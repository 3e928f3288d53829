package enum Pause {
  /// Waits; only 2 ms in a cancelled task.
  package static func milliseconds(_ count: Int) async {
    do {
      try await Task.sleep(for: .milliseconds(count))
    } catch {
      // A cancelled task must not spin in a polling loop.
      await Task.detached { try? await Task.sleep(for: .milliseconds(2)) }.value
    }
  }
}

extension Pause {
  /// Polls until `isDone`, also in a cancelled task: nothing tells when another process is ready.
  /// - Returns: whether it was in time.
  package static func until(
    within timeout: Duration, each milliseconds: Int = 20, _ isDone: () async throws -> Bool
  ) async rethrows -> Bool {
    let deadline = ContinuousClock.now + timeout
    while ContinuousClock.now < deadline {
      if try await isDone() { return true }
      await Pause.milliseconds(milliseconds)
    }
    return false
  }
}
