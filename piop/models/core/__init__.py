"""What several families of backbones share."""
